import { describe, expect, test } from "bun:test";
import { costOf } from "../../support/gateway/gatewayConfig.ts";
import { openOneModelBefore } from "../../support/gateway/gatewayUnderTest.ts";
import {
  created,
  delta,
  responsesUsage,
  terminal,
} from "../../support/provider/responsesAnswers.ts";
import { openResponse } from "../../support/gateway/responsesCalls.ts";
import {
  piece,
  raw,
  stream,
  streamEnd,
  streamHead,
} from "../../support/provider/scriptedProvider.ts";

const at = openOneModelBefore();
const started = 100_000_000_000n;
const cost = costOf({ prompt: 20, completion: 7, cached: 5, cacheWrite: 3 });

/** Lines that may replace the name of an event. The type is always in the data. */
const names: readonly (readonly [string, string])[] = [
  ["an event called message", "event: message\n"],
  ["an event with an empty name", "event:\n"],
  ["an event with a name of spaces", "event: \n"],
  ["an event with an unknown name", "event: completion\n"],
  ["no name at all", ""],
];
const endings: readonly (readonly [status: string, inBooks: string, charge: bigint])[] = [
  ["completed", "done", cost],
  ["incomplete", "done", cost],
  ["failed", "cancelled", cost],
];

describe.each(names)("%s", (_, line) => {
  test.each(endings)(
    "whose data is the terminal event %s is sent only after the charge is committed",
    async (status, inBooks, charge) => {
      const named = (event: string): string => event.replace(/^event: .*\n/, line);
      const last = named(terminal(status, "resp_1", { usage: responsesUsage }));
      const before = named(created()) + named(delta);
      const go = Promise.withResolvers<void>();
      at.provider.answer = async (peer, request) => {
        // The connection stays open. Only the terminal event can end the stream.
        await raw(streamHead, piece(before))(peer, request);
        await go.promise;
        await raw(piece(last))(peer, request);
        await peer.closed;
      };
      const key = await at.gateway.key();
      const client = await openResponse(at.gateway, key);
      await client.seen("Hello there");
      expect([client.text, await at.gateway.balance(key)]).toEqual([before, started]);
      go.resolve();
      await client.seen(`response.${status}`);
      expect(await at.gateway.balance(key)).toBe(started - charge);
      expect(client.text).toBe(before + last);
      expect(await at.gateway.records(key, 1)).toMatchObject([
        { status: inBooks, charge, estimated: false },
      ]);
    },
  );
});

test.each([
  ["without a terminal event", ""],
  ["with an error in its data", 'data: {"type":"error","message":"secret"}\n\n'],
])("an unnamed stream that ends %s fails with the interface's error", async (_, last) => {
  const named = (event: string): string => event.replace(/^event: .*\n/, "event: message\n");
  const events = [created(), delta].map(named).join("") + last;
  at.provider.answer = raw(streamHead, piece(events), streamEnd);
  const key = await at.gateway.key();
  const client = await openResponse(at.gateway, key);
  await client.seen("event: error\n");
  expect(client.text).not.toContain("secret");
  expect(await at.gateway.records(key, 1)).toMatchObject([{ status: "failed", charge: 0n }]);
});

/** An event with an invalid UTF-8 byte in a text. */
function spoilt(event: string, before: string): Buffer {
  const at = event.indexOf(before);
  return Buffer.concat([
    Buffer.from(event.slice(0, at)),
    Uint8Array.of(0xff),
    Buffer.from(event.slice(at)),
  ]);
}

test.each([
  ["with a name", (event: string) => event, responsesUsage, [false, 7]],
  [
    "with no name",
    (event: string) => event.replace(/^event: .*\n/, ""),
    responsesUsage,
    [false, 7],
  ],
  // A text of 14 bytes, one of which counts as three.
  ["without a usage", (event: string) => event, null, [true, 4]],
])(
  "a stream that is not UTF-8 is forwarded byte for byte and charged: %s",
  async (_, named, usage, [estimated, completionTokens]) => {
    const last = named(terminal("completed", "resp_1", { usage }));
    const events = [named(created()), spoilt(named(delta), "there"), spoilt(last, "there")];
    at.provider.answer = stream(...events);
    const key = await at.gateway.key();
    const reply = await fetch(`${at.gateway.url}/v1/responses`, {
      method: "POST",
      headers: { authorization: `Bearer ${key.key}`, "content-type": "application/json" },
      body: JSON.stringify({ model: "small", input: "hello", stream: true }),
    });
    const whole = Buffer.concat(events.map((event) => Buffer.from(event)));
    expect(Buffer.from(await reply.arrayBuffer()).equals(whole)).toBe(true);
    expect(await at.gateway.records(key, 1)).toMatchObject([
      { status: "done", estimated, completionTokens },
    ]);
  },
);
