import { describe, expect, test } from "bun:test";
import { openBefore } from "../../support/gateway/gatewayUnderTest.ts";
import {
  created,
  delta,
  ended,
  responsesUsage,
  terminal,
} from "../../support/provider/responsesAnswers.ts";
import { openResponse, respond } from "../../support/gateway/responsesCalls.ts";
import { json, piece, stream, streamHead } from "../../support/provider/scriptedProvider.ts";
import type { TestKey } from "../../support/gateway/testApp.ts";

const CONTEXT_TOKENS = 1000;
const at = openBefore(["local"], ({ local }) => ({
  providers: { local },
  models: [
    {
      id: "small",
      routes: [{ provider: "local" }],
      settings: { context_tokens: CONTEXT_TOKENS },
    },
  ],
  sections: { billing: { disconnect_grace: "50ms" } },
}));

/** The estimate of "hello", the input of each request. */
const INPUT_TOKENS = 2;
/** The estimate of "Hello there", the text of each answer. */
const SAID_TOKENS = 3;

let count = 0;
const newId = () => `resp_${(count += 1)}`;

/** Creates a response with this usage and returns its id. */
async function made(
  key: TestKey,
  isStream: boolean,
  usage: object | null,
  {
    previous,
    input,
    ...changes
  }: { previous?: string; input?: readonly object[]; output?: readonly object[] } = {},
) {
  const id = newId();
  at.providers.local.answer = isStream
    ? stream(created(id), delta, terminal("completed", id, { usage, ...changes }))
    : json(ended(id, { usage, ...changes }));
  const fields = { stream: isStream, previous_response_id: previous, ...(input && { input }) };
  expect((await respond(at.gateway, key, fields)).status).toBe(200);
  return id;
}

const LARGE_TOKENS = 300;
/** The estimate of the fields around the text of such an item, and of the reference to it. */
const AROUND_TOKENS_MAX = 60;
/** An item of an answer whose text has this many tokens by the estimate. */
function largeItem() {
  const content = [{ type: "output_text", text: "word".repeat(LARGE_TOKENS), annotations: [] }];
  return { id: `msg_${newId()}`, type: "message", role: "assistant", content };
}
const referTo = (items: readonly { readonly id: string }[]) =>
  items.map(({ id }) => ({ type: "item_reference", id }));

async function lastRecord(key: TestKey, count: number) {
  const [record] = await at.gateway.records(key, count);
  return record;
}

describe.each([
  ["in JSON", false],
  ["as a stream", true],
])("a response that continues another, %s, without usage", (_, isStream) => {
  test("is charged for the earlier prompt and answer", async () => {
    const key = await at.gateway.key();
    const first = await made(key, isStream, responsesUsage);
    await made(key, isStream, null, { previous: first });
    expect(await lastRecord(key, 2)).toMatchObject({
      estimated: true,
      promptTokens: responsesUsage.input_tokens + SAID_TOKENS + INPUT_TOKENS,
      completionTokens: SAID_TOKENS,
    });
  });

  test("is charged for the whole chain, estimated or not", async () => {
    const key = await at.gateway.key();
    const first = await made(key, isStream, null);
    const second = await made(key, isStream, null, { previous: first });
    await made(key, isStream, null, { previous: second });
    expect(await lastRecord(key, 3)).toMatchObject({
      promptTokens: 3 * INPUT_TOKENS + 2 * SAID_TOKENS,
    });
  });

  test("is not charged for earlier reasoning, which providers do not repeat", async () => {
    const key = await at.gateway.key();
    const first = await made(key, isStream, { ...responsesUsage, output_tokens: 500 });
    await made(key, isStream, null, { previous: first });
    expect(await lastRecord(key, 2)).toMatchObject({
      promptTokens: responsesUsage.input_tokens + SAID_TOKENS + INPUT_TOKENS,
    });
  });

  test("is not charged for results of the provider's own tools in earlier rounds", async () => {
    const key = await at.gateway.key();
    const search = { type: "web_search_call", id: "ws_1", status: "completed" };
    const usage = { input_tokens: 900, output_tokens: 7 };
    const first = await made(key, isStream, usage, { output: [search] });
    await made(key, isStream, null, { previous: first });
    expect(await lastRecord(key, 2)).toMatchObject({
      promptTokens: INPUT_TOKENS + (isStream ? SAID_TOKENS : 0) + INPUT_TOKENS,
    });
  });

  test("is charged for the whole prompt when the client runs the tools", async () => {
    const key = await at.gateway.key();
    const call = { type: "function_call", id: "fc_1", call_id: "c", name: "f", arguments: "{}" };
    const usage = { input_tokens: 900, output_tokens: 7 };
    const first = await made(key, isStream, usage, { output: [call] });
    await made(key, isStream, null, { previous: first });
    const record = await lastRecord(key, 2);
    expect(record?.promptTokens).toBeGreaterThan(usage.input_tokens);
  });

  test("is never charged above its hold", async () => {
    const key = await at.gateway.key();
    const first = await made(key, isStream, { input_tokens: 5000, output_tokens: 7 });
    await made(key, isStream, null, { previous: first });
    const record = await lastRecord(key, 2);
    expect(record).toMatchObject({ promptTokens: CONTEXT_TOKENS });
    expect(record?.charge).toBeLessThanOrEqual(record?.hold ?? 0n);
  });
});

describe.each([
  ["in JSON", false],
  ["as a stream", true],
])("a response that refers to items of an earlier one, %s, without usage", (_, isStream) => {
  test("is charged once for an item that is sent back completely", async () => {
    const key = await at.gateway.key();
    const item = largeItem();
    await made(key, isStream, { input_tokens: 900, output_tokens: 700 }, { output: [item] });
    await made(key, isStream, null, { input: [item] });
    const { promptTokens = 0 } = (await lastRecord(key, 2)) ?? {};
    expect(promptTokens).toBeGreaterThanOrEqual(LARGE_TOKENS);
    expect(promptTokens).toBeLessThan(LARGE_TOKENS + AROUND_TOKENS_MAX);
  });

  test("is charged for each item as if it were in the request, and for nothing else", async () => {
    const key = await at.gateway.key();
    const usage = { input_tokens: 900, output_tokens: 700 };
    const output = [largeItem(), largeItem()];
    await made(key, isStream, usage, { output });
    for (const count of [1, 2]) {
      await made(key, isStream, null, { input: referTo(output.slice(0, count)) });
      const { promptTokens = 0 } = (await lastRecord(key, 1 + count)) ?? {};
      expect(promptTokens).toBeGreaterThanOrEqual(count * LARGE_TOKENS);
      expect(promptTokens).toBeLessThanOrEqual(count * (LARGE_TOKENS + AROUND_TOKENS_MAX));
    }
  });

  test("is charged for a picture among them as for one non-text part", async () => {
    const key = await at.gateway.key();
    const picture = {
      id: `ig_${newId()}`,
      type: "image_generation_call",
      result: "A".repeat(90),
    };
    await made(key, isStream, responsesUsage, { output: [picture] });
    await made(key, isStream, null, { input: referTo([picture]) });
    expect(await lastRecord(key, 2)).toMatchObject({ promptTokens: CONTEXT_TOKENS });
  });
});

test("a referenced item counts in the token rate before the request is sent", async () => {
  const key = await at.gateway.key({ tokensPerMinute: LARGE_TOKENS });
  const output = [largeItem()];
  await made(key, false, { input_tokens: 1, output_tokens: 1 }, { output });
  const reply = await respond(at.gateway, key, { input: referTo(output) });
  expect(reply.status).toBe(429);
});

test("a client that disconnects is charged for the earlier responses too", async () => {
  const key = await at.gateway.key();
  const first = await made(key, true, responsesUsage);
  const isGone = Promise.withResolvers<void>();
  at.providers.local.answer = async (peer) => {
    await peer.send(Buffer.concat([Buffer.from(streamHead), piece(created(newId()) + delta)]));
    await isGone.promise;
  };
  const reply = await openResponse(at.gateway, key, { previous_response_id: first });
  await reply.seen("Hello there");
  reply.disconnect();
  const record = await lastRecord(key, 2);
  isGone.resolve();
  expect(record).toMatchObject({
    status: "cancelled",
    estimated: true,
    promptTokens: responsesUsage.input_tokens + SAID_TOKENS + INPUT_TOKENS,
    completionTokens: SAID_TOKENS,
  });
});

test("earlier responses count in the token rate before the request is sent", async () => {
  const key = await at.gateway.key({ tokensPerMinute: 100 });
  const first = await made(key, false, { ...responsesUsage, input_tokens: 90 });
  const reply = await respond(at.gateway, key, { previous_response_id: first });
  expect(reply.status).toBe(429);
});
