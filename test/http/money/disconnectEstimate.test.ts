import { describe, expect, test } from "bun:test";
import { openChat } from "../../support/gateway/chatCalls.ts";
import { costOf } from "../../support/gateway/gatewayConfig.ts";
import { openOneModelBefore } from "../../support/gateway/gatewayUnderTest.ts";
import type { TestKey } from "../../support/gateway/testApp.ts";
import { openResponse } from "../../support/gateway/responsesCalls.ts";
import { created } from "../../support/provider/responsesAnswers.ts";
import { piece, streamHead } from "../../support/provider/scriptedProvider.ts";
import { chatEvent, responseEvent } from "../../support/provider/upstreamText.ts";

/** What a client that disconnects pays for a text in many deltas. */
const at = openOneModelBefore({ billing: { disconnect_grace: "60ms" } });

const chat = (key: TestKey) => openChat(at.gateway, key, { stream: true });
const response = (key: TestKey) => openResponse(at.gateway, key);

/** The record of a client that disconnects after the last of these events. Its provider continues. */
async function left(open: typeof chat, events: readonly string[], last: string) {
  at.provider.answer = async (peer) => {
    await peer.send(Buffer.from(streamHead));
    for (const event of events) await peer.send(piece(event));
  };
  const key = await at.gateway.key();
  const client = await open(key);
  await client.seen(last);
  client.disconnect();
  const [record] = await at.gateway.records(key, 1);
  expect(record).toMatchObject({ status: "cancelled", estimated: true, writeOff: 0n });
  await at.gateway.expectAuditPasses();
  return record;
}

const times = <Item>(count: number, item: Item): Item[] => Array<Item>(count).fill(item);
const inContent = (text: string) => chatEvent({ content: text });
const inReasoning = (text: string) => chatEvent({ reasoning_content: text });
/** The first piece has the name, whose one byte changes no figure below. */
const inArguments = (text: string, at: number) =>
  chatEvent({
    tool_calls: [{ index: 0, function: { ...(at === 0 && { name: "f" }), arguments: text } }],
  });
const inResponse = (text: string) => responseEvent("response.output_text.delta", { delta: text });

const forms: readonly (readonly [string, typeof chat, (text: string, at: number) => string])[] = [
  ["content", chat, inContent],
  ["reasoning", chat, inReasoning],
  ["arguments of a call", chat, inArguments],
  ["text of a response", response, inResponse],
];

describe.each(forms)("a client that disconnects during the %s pays", (_, open, eventOf) => {
  test.each<[string, readonly string[], number]>([
    ["a token for each delta when deltas are as short as tokens", times(40, "слово "), 41],
    ["by bytes when that is less", times(40, "a "), 21],
    ["by bytes when the deltas hold several tokens", times(40, "four words of text "), 191],
    ["by bytes when there are too few deltas to tell", ["слово "], 4],
  ])("%s", async (_name, texts, completionTokens) => {
    const opening = open === response ? [created()] : [];
    const events = [...opening, ...[...texts, "end"].map((text, at) => eventOf(text, at))];
    expect(await left(open, events, '"end')).toMatchObject({ completionTokens });
  });
});

const withUsage = (content: string, completion_tokens: number) =>
  chatEvent({ content }, null, { usage: { prompt_tokens: 30, completion_tokens } });
const word = "12345678";
const end = inContent("end");

describe("a client that disconnects from a stream with early usage pays the reported prompt, and", () => {
  test.each<[string, readonly string[], number]>([
    [
      "the last figure when no text follows it, though the estimate is higher",
      [...times(20, "1234 5678 1234"), "end"].map((text, at) => withUsage(text, 2 * (at + 1))),
      42,
    ],
    [
      "the last figure and an estimate of the text after it",
      [withUsage("1234".repeat(20), 10), inContent("1234".repeat(20)), end],
      31,
    ],
    [
      "the figure alone when it is above the estimate of all text",
      [withUsage(word, 300), inContent(word), inContent(word), end],
      300,
    ],
    [
      "the estimate when the figure is the same placeholder in each event",
      [...times(20, "1234".repeat(5)), "end"].map((text) => withUsage(text, 1)),
      101,
    ],
    [
      "the estimate when the figure is too small for its text",
      [withUsage("1234".repeat(20), 5), end],
      21,
    ],
  ])("%s", async (_, events, completionTokens) => {
    const record = await left(chat, events, '"end');
    const charge = costOf({ prompt: 30, completion: completionTokens });
    expect(record).toMatchObject({ promptTokens: 30, completionTokens, charge });
  });
});

test("a client that disconnects from a stream with one token per event pays no more than the whole stream costs", async () => {
  const words = times(200, "слово ");
  const record = await left(chat, [...words, "end"].map(inContent), '"end');
  const whole = costOf({ prompt: record?.promptTokens ?? 0, completion: words.length + 1 });
  expect(record?.charge).toBeLessThanOrEqual(whole);
});
