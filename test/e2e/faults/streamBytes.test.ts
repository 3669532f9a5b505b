import { expect } from "bun:test";
import { doneEvent, stopEvent, usage, usageEvent } from "../../support/provider/chatAnswers.ts";
import {
  messageUsage,
  startEvent,
  endEvent,
  stopEvent as messageStop,
  textEvent,
} from "../../support/provider/anthropicAnswers.ts";
import {
  begun,
  begunEvents,
  byForm,
  chatStreamForms,
  interfaceOf,
  streamForms,
  type Form,
} from "../../support/faults/faultAnswers.ts";
import { openFaultSetup, type FaultReply } from "../../support/faults/faultSetup.ts";
import {
  expectEnd,
  expectSaid,
  testBrokenStream,
  testRow,
  testServed,
  usualCharge,
} from "../../support/faults/faultTests.ts";
import { responsesUsage } from "../../support/provider/responsesAnswers.ts";
import { stream } from "../../support/provider/scriptedProvider.ts";
import { chatEvent, responseEvent } from "../../support/provider/upstreamText.ts";
import { sample } from "../../support/sample.ts";

/** Rows 63 to 66, 69 and 70: how the bytes of a stream may be cut, ended and garbled. */
const setup = openFaultSetup();
const done = { status: "done", charge: usualCharge };

/** Characters of one to four bytes in UTF-8. */
const spoken = "aé日🙂";
type StreamForm = (typeof streamForms)[number];
const chatBody = chatEvent({ content: spoken }, "stop", { usage }) + doneEvent;
const bodies: Readonly<Record<StreamForm, string>> = {
  "chat stream": chatBody,
  "translated messages stream": chatBody,
  "messages stream": startEvent + textEvent(spoken) + endEvent(messageUsage) + messageStop,
  "responses stream":
    responseEvent("response.output_text.delta", { delta: spoken }) +
    responseEvent("response.completed", { response: { id: "resp_1", usage: responsesUsage } }),
};

/** What a client has of a body: the texts of a chat and its reason, or the very bytes of a response and of messages. */
function expectBody(form: Form, reply: FaultReply, body: string): void {
  if (interfaceOf(form) === "chat") expectSaid(reply, [spoken]);
  else {
    // The LF of its last CRLF could still come, so the decoder of messages adds one. Behind a blank line it has no effect.
    const lineFeed = form === "messages stream" && body.endsWith("\n\r") ? "\n" : "";
    expect(reply.bytes.equals(Buffer.from(body + lineFeed))).toBe(true);
  }
}

function streamHeadOf(bytes: Uint8Array): string {
  return `HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncontent-length: ${bytes.byteLength}\r\n\r\n`;
}

const lineEnds = { LF: "\n", CRLF: "\r\n" };
const askedAtOnce = 16;
const POSITIONS_IN_CI = 32;

for (const form of streamForms) {
  for (const [name, lineEnd] of Object.entries(lineEnds)) {
    const body = bodies[form].replaceAll("\n", lineEnd);
    const bytes = Buffer.from(body);
    const everywhere = Array.from({ length: bytes.byteLength - 1 }, (_, at) => at + 1);
    const positions = sample(everywhere, POSITIONS_IN_CI);
    let asked = 0;
    const model = setup.model(64, {
      answer: async (peer) => {
        const at = positions[asked] ?? bytes.byteLength;
        asked += 1;
        await peer.send(streamHeadOf(bytes));
        await peer.send(bytes.subarray(0, at));
        // A moment in which the gateway reads the first part alone.
        await Bun.sleep(1);
        await peer.send(bytes.subarray(at));
      },
      hasNext: true,
    });
    testRow(
      64,
      `a stream with ${name} is cut at each of its bytes (${form}): identical`,
      async () => {
        const context = async (): Promise<void> => {
          while (setup.calls(model)[0] < positions.length) {
            const reply = await setup.ask(form, model);
            expectBody(form, reply, body);
            expectEnd(await setup.record(reply, usualCharge), done);
          }
        };
        await Promise.all(Array.from({ length: askedAtOnce }, context));
        expect(setup.calls(model)[1]).toBe(0);
      },
    );
  }
}

/** A body of events with other line ends, an order mark, or more lines than it needs. */
const dialects: readonly { row: number; name: string; change: (body: string) => string }[] = [
  { row: 63, name: "every byte in a piece of its own", change: (body) => body },
  { row: 65, name: "CRLF", change: (body) => body.replaceAll("\n", "\r\n") },
  { row: 65, name: "CR only", change: (body) => body.replaceAll("\n", "\r") },
  { row: 65, name: "mixed line ends", change: mixed },
  { row: 65, name: "a byte order mark", change: (body) => `\uFEFF${body}` },
  {
    row: 66,
    name: "data in several lines",
    change: (body) => body.replaceAll(',"', '\ndata: ,"'),
  },
  { row: 66, name: "data without a blank", change: (body) => body.replaceAll("data: ", "data:") },
  {
    row: 66,
    name: "ids, retries, comments and unknown fields",
    change: (body) =>
      body.replaceAll("data: ", ": hello\n:\nid: 7\nretry: 10\nodd\nother: x\ndata: "),
  },
  {
    row: 66,
    name: "blank lines before and between",
    change: (body) => `\n\n${body.replaceAll("\n\n", "\n\n\n").trimEnd()}\n\n`,
  },
];

/** LF, CRLF and CR in turn. */
function mixed(body: string): string {
  let count = 0;
  return body.replaceAll("\n", () => ["\n", "\r\n", "\r"][count++ % 3] ?? "");
}

testServed(
  setup,
  dialects.map(({ row, name, change }) => ({
    row,
    name,
    forms: streamForms,
    answer: byForm((form) => async (peer) => {
      const bytes = Buffer.from(change(bodies[form as StreamForm]));
      await peer.send(streamHeadOf(bytes));
      for (const byte of bytes) {
        await peer.send(Uint8Array.of(byte));
        await Bun.sleep(0);
      }
    }),
    sees: (reply: FaultReply, form: Form) =>
      expectBody(form, reply, change(bodies[form as StreamForm])),
    charge: usualCharge,
  })),
);

const invalid = Uint8Array.of(0xff);
const badDelta = Buffer.concat([
  Buffer.from('event: response.output_text.delta\ndata: {"delta":"'),
  invalid,
  Buffer.from('"}\n\n'),
]);

testBrokenStream(setup, [
  ...["{nonsense", "5", "[1]", '{"choices":5}', '{"choices":[{"delta":{"content":5}}]}'].map(
    (data) => ({
      row: 69,
      name: `an event of ${data} within the stream`,
      forms: chatStreamForms,
      answer: stream(...begunEvents.chat, `data: ${data}\n\n`, stopEvent, usageEvent, doneEvent),
      before: begun,
      outcome: "invalid answer",
    }),
  ),
  {
    row: 70,
    name: "an event that is not UTF-8",
    forms: chatStreamForms,
    answer: stream(
      ...begunEvents.chat,
      Buffer.concat([Buffer.from('data: {"choices":[],"x":"'), invalid, Buffer.from('"}\n\n')]),
      stopEvent,
      doneEvent,
    ),
    before: begun,
    outcome: "invalid answer",
  },
]);

const badMessage = Buffer.concat([
  Buffer.from('event: new_event\ndata: {"type":"new_event","x":"'),
  invalid,
  Buffer.from('"}\n\n'),
]);

testServed(setup, [
  {
    row: 70,
    name: "an event of messages that is not UTF-8: its bytes are unchanged",
    forms: ["messages stream"],
    answer: stream(badMessage, Buffer.from(bodies["messages stream"])),
    sees: ({ bytes }) =>
      expect(
        bytes.equals(Buffer.concat([badMessage, Buffer.from(bodies["messages stream"])])),
      ).toBe(true),
    charge: usualCharge,
  },
  {
    row: 70,
    name: "an event that is not UTF-8: its bytes are unchanged",
    forms: ["responses stream"],
    answer: stream(...begunEvents.responses, badDelta, Buffer.from(bodies["responses stream"])),
    sees: ({ bytes }) =>
      expect(
        bytes.equals(
          Buffer.concat([
            Buffer.from(begunEvents.responses.join("")),
            badDelta,
            Buffer.from(bodies["responses stream"]),
          ]),
        ),
      ).toBe(true),
    charge: usualCharge,
  },
]);
