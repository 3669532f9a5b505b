import { expect } from "bun:test";
import {
  beginning,
  begun,
  byForm,
  inInterface,
  isMessagesForm,
  streamForms,
  type FaultyAnswer,
  type Form,
} from "../../support/faults/faultAnswers.ts";
import { shortTimeouts, openFaultSetup, type FaultReply } from "../../support/faults/faultSetup.ts";
import {
  errorEvent,
  expectBroken,
  expectEnd,
  messagesErrorEvent,
  testRow,
} from "../../support/faults/faultTests.ts";
import { costOf } from "../../support/gateway/gatewayConfig.ts";
import { textEvent } from "../../support/provider/anthropicAnswers.ts";
import { piece, streamHead } from "../../support/provider/scriptedProvider.ts";
import { chatEvent, responseEvent } from "../../support/provider/upstreamText.ts";

/** Rows 53 and 54: streams that do not end by themselves, and what their clients see meanwhile. */
const setup = openFaultSetup({
  server: { listen: "127.0.0.1:0", sse_keepalive: "100ms" },
});

const words = "some words more ".repeat(64);
const wordsEvent = responseEvent("response.output_text.delta", { delta: words });

/** Sends words as long as the client reads. */
const endless: FaultyAnswer = byForm((form) => async (peer) => {
  await peer.send(streamHead);
  const event = inInterface(form, {
    chat: chatEvent({ content: words }),
    responses: wordsEvent,
    messages: textEvent(words),
  });
  for (;;) {
    await peer.send(piece(event));
    await Bun.sleep(1);
  }
});

/** The end of a stream that was cut, whatever came before it. */
function expectCut(form: Form, reply: FaultReply): void {
  expect(reply.status).toBe(200);
  // On a busy machine the provider can be quiet for long enough.
  const text = reply.text.replaceAll(": keep-alive\n\n", "");
  if (isMessagesForm(form)) {
    const start = form === "messages stream" ? textEvent(words) : "\n\n";
    expect(text).toEndWith(start + messagesErrorEvent(reply));
    expect(text).not.toContain("message_stop");
  } else if (form === "chat stream") {
    expect(text).toContain('"finish_reason":"error"');
    expect(text).toEndWith("data: [DONE]\n\n");
  } else {
    const eventCount = text.split(wordsEvent).length - 1;
    expect(text).toEndWith(wordsEvent + errorEvent(eventCount));
  }
}

/** What "Hello" costs. Native Messages report the prompt before it. */
function deliveredCharge(form: Form): bigint {
  if (form === "messages stream")
    return costOf({ prompt: 20, cached: 5, cacheWrite: 3, completion: 2 });
  return costOf({ prompt: 2, completion: form === "responses stream" ? 3 : 2 });
}

const failed = { status: "failed", charge: 0n };

for (const form of streamForms) {
  const long = setup.model(53, { answer: endless, hasNext: true });
  testRow(
    53,
    `a stream goes far beyond what its model can say (${form}): cut, no charge`,
    async () => {
      const bound = form === "responses stream" ? { max_output_tokens: 16 } : { max_tokens: 16 };
      const reply = await setup.ask(form, long, bound);
      expectCut(form, reply);
      const record = await setup.record(reply, 0n);
      expectEnd(record, failed);
      expect(record.attempts).toMatchObject([{ outcome: "endless answer" }]);
      await setup.released(long);
    },
  );

  const silent = setup.model(54, { answer: beginning, settings: shortTimeouts, hasNext: true });
  testRow(54, `a stream falls silent (${form}): heart-beats, then the error`, async () => {
    const reply = await setup.ask(form, silent);
    expect(reply.text.match(/: keep-alive\n\n/g)?.length).toBeWithin(1, 20);
    expectBroken(form, { ...reply, text: reply.text.replaceAll(": keep-alive\n\n", "") }, begun);
    // The time-out is the gateway's: what was delivered is charged.
    const record = await setup.record(reply, deliveredCharge(form));
    expectEnd(record, { status: "cancelled", charge: deliveredCharge(form) });
    expect(record.attempts).toMatchObject([{ outcome: "timeout" }]);
    expect(setup.calls(silent)).toEqual([1, 0]);
    await setup.released(silent);
  });
}
