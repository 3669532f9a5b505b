import { describe, expect, test } from "bun:test";
import { configOf, loadText, minimal } from "./loadText.ts";

const day = 86_400_000;

/** A value as it stands in the file, and what is read. */
type Limit = readonly [text: string, value: number];

const duration = (range: string) =>
  `must be a duration in the form "500ms", "30s", "5m", "24h" or "90d", from ${range}`;
const whole = (range: string) => `must be a whole number from ${range}`;

const ranges: readonly (readonly [
  key: string,
  field: string,
  least: Limit,
  most: Limit,
  problem: string,
  refused: readonly string[],
])[] = [
  [
    "server.max_body",
    "server.maxBodyBytes",
    ['"1KB"', 1024],
    ['"1GB"', 1024 ** 3],
    'must be a size in the form "512KB" or "20MB", from 1KB to 1GB',
    [
      '"1023B"',
      '"1025MB"',
      '"20 MB"',
      '"20mb"',
      '"1.5MB"',
      '"-1MB"',
      '"20"',
      '""',
      '"9999999999999B"',
    ],
  ],
  [
    "limits.body_bytes_per_minute",
    "limits.bodyBytesPerMinute",
    ['"0B"', 0],
    ['"1000GB"', 1000 * 1024 ** 3],
    'must be a size in the form "512KB" or "20MB", from 0B to 1000GB',
    ['"1001GB"', '"120"'],
  ],
  [
    "server.drain_delay",
    "server.drainDelayMs",
    ['"0s"', 0],
    ['"5m"', 300_000],
    duration("0s to 5m"),
    ['"6m"', '"-1s"', '"3"'],
  ],
  [
    "server.shutdown_grace",
    "server.shutdownGraceMs",
    ['"0s"', 0],
    ['"1h"', 3_600_000],
    duration("0s to 1h"),
    ['"61m"', '"-1s"', '"1.5s"', '"30"', '"30S"', '"30 s"', '"s"', '"1h30m"', '"1e3s"', '" 1s"'],
  ],
  [
    "server.sse_keepalive",
    "server.sseKeepaliveMs",
    ['"0s"', 0],
    ['"60m"', 3_600_000],
    duration("0s to 1h"),
    ['"3601s"'],
  ],
  [
    "database.keep_requests",
    "database.keepRequestsMs",
    ['"1h"', 3_600_000],
    ['"36500d"', 36_500 * day],
    duration("1h to 36500d"),
    ['"59m"', '"0d"', '"36501d"', '"999999999999d"'],
  ],
  [
    "billing.hold_wait",
    "billing.holdWaitMs",
    ['"0ms"', 0],
    ['"5m"', 300_000],
    duration("0s to 5m"),
    ['"301s"'],
  ],
  [
    "billing.disconnect_grace",
    "billing.disconnectGraceMs",
    ['"0s"', 0],
    ['"10m"', 600_000],
    duration("0s to 10m"),
    ['"601s"'],
  ],
  ...(
    [
      ["api.max_embedding_inputs", "api.maxEmbeddingInputs", 1, 50_000],
      ["billing.min_output_tokens", "billing.minOutputTokens", 1, 100_000_000],
      ["limits.requests_per_minute", "limits.requestsPerMinute", 0, 1_000_000_000],
      ["limits.tokens_per_minute", "limits.tokensPerMinute", 0, 1_000_000_000_000],
      ["limits.concurrent_requests", "limits.concurrentRequests", 0, 1_000_000],
      ["limits.connections_per_address", "limits.connectionsPerAddress", 0, 1_000_000],
      ["limits.failed_keys_per_minute", "limits.failedKeysPerMinute", 0, 1_000_000_000],
    ] as const
  ).map(
    ([key, field, least, most]) =>
      [
        key,
        field,
        [`${least}`, least],
        [`${most}`, most],
        whole(`${least} to ${most}`),
        [
          "-1",
          `${least - 1}`,
          `${most + 1}`,
          "16.0",
          '"16"',
          "true",
          "9223372036854775807",
          "nan",
          "inf",
        ],
      ] as const,
  ),
];

describe.each(ranges)("%s", (key, field, least, most, problem, refused) => {
  const textWith = (value: string) => `${key} = ${value}\n${minimal}`;
  test.each([least, most])("accepts %s", (text, value) => {
    expect(configOf(textWith(text))).toHaveProperty(field, value);
  });
  test.each([...refused])("refuses %s", (text) => {
    expect(loadText(textWith(text)).problems).toEqual([`${key}: ${problem}`]);
  });
});
