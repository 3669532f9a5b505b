import { describe, expect, test } from "bun:test";
import type { Config } from "../../src/config/schema.ts";
import { configOf, loadText, minimal } from "./loadText.ts";

const day = 86_400_000;

interface Range {
  readonly key: string;
  readonly read: (config: Config) => unknown;
  /** Each as it stands in the file, with what is read. */
  readonly least: readonly [string, number];
  readonly most: readonly [string, number];
  readonly outside: readonly string[];
  readonly problem: string;
}

const duration = 'must be a duration in the form "500ms", "30s", "5m", "24h" or "90d", from';
const size = 'must be a size in the form "512KB" or "20MB", from';

const ranges: readonly Range[] = [
  {
    key: "server.max_body",
    read: (config) => config.server.maxBodyBytes,
    least: ['"1KB"', 1024],
    most: ['"1GB"', 1024 ** 3],
    outside: [
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
    problem: `${size} 1KB to 1GB`,
  },
  {
    key: "server.shutdown_grace",
    read: (config) => config.server.shutdownGraceMs,
    least: ['"0s"', 0],
    most: ['"1h"', 3_600_000],
    outside: [
      '"61m"',
      '"-1s"',
      '"1.5s"',
      '"30"',
      '"30S"',
      '"30 s"',
      '"s"',
      '"1h30m"',
      '"1e3s"',
      '" 1s"',
    ],
    problem: `${duration} 0s to 1h`,
  },
  {
    key: "server.sse_keepalive",
    read: (config) => config.server.sseKeepaliveMs,
    least: ['"0s"', 0],
    most: ['"60m"', 3_600_000],
    outside: ['"3601s"'],
    problem: `${duration} 0s to 1h`,
  },
  {
    key: "database.keep_requests",
    read: (config) => config.database.keepRequestsMs,
    least: ['"1h"', 3_600_000],
    most: ['"36500d"', 36_500 * day],
    outside: ['"59m"', '"0d"', '"36501d"', '"999999999999d"'],
    problem: `${duration} 1h to 36500d`,
  },
  {
    key: "billing.hold_wait",
    read: (config) => config.billing.holdWaitMs,
    least: ['"0ms"', 0],
    most: ['"5m"', 300_000],
    outside: ['"301s"'],
    problem: `${duration} 0s to 5m`,
  },
  {
    key: "billing.disconnect_grace",
    read: (config) => config.billing.disconnectGraceMs,
    least: ['"0s"', 0],
    most: ['"10m"', 600_000],
    outside: ['"601s"'],
    problem: `${duration} 0s to 10m`,
  },
  {
    key: "billing.min_output_tokens",
    read: (config) => config.billing.minOutputTokens,
    least: ["1", 1],
    most: ["100000000", 100_000_000],
    outside: ["0", "-1", "100000001", "16.0", '"16"', "true"],
    problem: "must be a whole number from 1 to 100000000",
  },
  {
    key: "limits.requests_per_minute",
    read: (config) => config.limits.requestsPerMinute,
    least: ["0", 0],
    most: ["1000000000", 1_000_000_000],
    outside: [
      "-1",
      "1000000001",
      "600.0",
      "9223372036854775807",
      "99999999999999999999999",
      "nan",
      "inf",
    ],
    problem: "must be a whole number from 0 to 1000000000",
  },
  {
    key: "limits.tokens_per_minute",
    read: (config) => config.limits.tokensPerMinute,
    least: ["0", 0],
    most: ["1000000000000", 1_000_000_000_000],
    outside: ["-1", "1000000000001"],
    problem: "must be a whole number from 0 to 1000000000000",
  },
  {
    key: "limits.concurrent_requests",
    read: (config) => config.limits.concurrentRequests,
    least: ["0", 0],
    most: ["1000000", 1_000_000],
    outside: ["-1", "1000001"],
    problem: "must be a whole number from 0 to 1000000",
  },
  {
    key: "limits.failed_keys_per_minute",
    read: (config) => config.limits.failedKeysPerMinute,
    least: ["0", 0],
    most: ["1000000000", 1_000_000_000],
    outside: ["-1", "1000000001"],
    problem: "must be a whole number from 0 to 1000000000",
  },
];

describe.each([...ranges])("$key", ({ key, read, least, most, outside, problem }) => {
  const textWith = (value: string) => `${key} = ${value}\n${minimal}`;
  test.each([[...least], [...most]])("accepts %s", (value, amount) => {
    expect(read(configOf(textWith(value)))).toBe(amount);
  });
  test.each([...outside])("refuses %s", (value) => {
    expect(loadText(textWith(value)).problems).toEqual([`${key}: ${problem}`]);
  });
});
