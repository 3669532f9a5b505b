import { describe, expect, test } from "bun:test";
import { costOf } from "../support/gatewayConfig.ts";
import { openOneModelBefore } from "../support/gatewayUnderTest.ts";
import { created, delta, responsesUsage, terminal } from "../support/responsesAnswers.ts";
import { openResponse } from "../support/responsesCalls.ts";
import { piece, raw, streamEnd, streamHead } from "../support/scriptedProvider.ts";

const at = openOneModelBefore();
const started = 100_000_000_000n;
const cost = costOf({ prompt: 20, completion: 7, cached: 5, cacheWrite: 3 });

/** The lines that may stand where the interface names its event; the type is in the data in any case. */
const names: readonly (readonly [string, string])[] = [
  ["an event called message", "event: message\n"],
  ["an event with an empty name", "event:\n"],
  ["an event with a blank name", "event: \n"],
  ["an event of another vocabulary", "event: completion\n"],
  ["no name at all", ""],
];
const endings: readonly (readonly [status: string, inBooks: string, charge: bigint])[] = [
  ["completed", "done", cost],
  ["incomplete", "done", cost],
  ["failed", "failed", 0n],
];

describe.each(names)("%s", (_, line) => {
  test.each(endings)(
    "whose data is the terminal event %s is kept back until the charge is committed",
    async (status, inBooks, charge) => {
      const named = (event: string): string => event.replace(/^event: .*\n/, line);
      const last = named(terminal(status, "resp_1", { usage: responsesUsage }));
      const before = named(created()) + named(delta);
      const go = Promise.withResolvers<void>();
      at.provider.answer = async (peer, request) => {
        // The connection stays open: only the terminal event itself can end the stream.
        await raw(streamHead, piece(before))(peer, request);
        await go.promise;
        await raw(piece(last))(peer, request);
        await peer.closed;
      };
      const key = at.gateway.key();
      const client = await openResponse(at.gateway, key);
      await client.seen("Hello there");
      expect([client.text, at.gateway.balance(key)]).toEqual([before, started]);
      go.resolve();
      await client.seen(`response.${status}`);
      expect(at.gateway.balance(key)).toBe(started - charge);
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
  const key = at.gateway.key();
  const client = await openResponse(at.gateway, key);
  await client.seen("event: error\n");
  expect(client.text).not.toContain("secret");
  expect(await at.gateway.records(key, 1)).toMatchObject([{ status: "failed", charge: 0n }]);
});
