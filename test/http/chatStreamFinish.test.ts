import { describe, expect, test } from "bun:test";
import { doneEvent, stopEvent, usageEvent } from "../support/chatAnswers.ts";
import { chunksOf, openChat, type OpenReply } from "../support/chatCalls.ts";
import { openOneModelBefore } from "../support/gatewayUnderTest.ts";
import { piece, streamEnd, streamHead } from "../support/scriptedProvider.ts";
import { chatEvent } from "../support/upstreamText.ts";

const at = openOneModelBefore();
const streaming = { stream: true };

/** What the chunks of a stream add, one after the other, each with its finish reason. */
function steps(reply: { text: string }): (readonly [delta: object, reason: string | null])[] {
  return chunksOf(reply).flatMap(({ choices }) =>
    (choices as { delta: object; finish_reason: string | null }[]).map(
      ({ delta, finish_reason: reason }) => [delta, reason] as const,
    ),
  );
}

describe("a finish reason that says nothing ends nothing", () => {
  test.each(["", "null"])("%p in each chunk: the text goes on as it comes", async (nothing) => {
    const words = ["one", "two", "three", "four"];
    const opened = Promise.withResolvers<OpenReply>();
    at.provider.answer = async (peer) => {
      await peer.send(streamHead);
      await peer.send(piece(chatEvent({ role: "assistant", content: "" }, nothing)));
      for (const word of words) {
        await peer.send(piece(chatEvent({ content: word }, nothing)));
        await (await opened.promise).seen(word);
      }
      for (const event of [stopEvent, usageEvent, doneEvent]) await peer.send(piece(event));
      await peer.send(streamEnd);
    };
    const key = at.gateway.key();
    const reply = await openChat(at.gateway, key, streaming);
    opened.resolve(reply);
    await reply.seen("[DONE]");
    expect(steps(reply)).toEqual([
      [{ role: "assistant", content: "" }, null],
      ...words.map((content) => [{ content }, null] as const),
      [{}, "stop"],
    ]);
    expect(await at.gateway.records(key, 1)).toMatchObject([{ status: "done", estimated: false }]);
  });
});
