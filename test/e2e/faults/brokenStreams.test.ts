import { roleEvent } from "../../support/provider/chatAnswers.ts";
import {
  endEvent,
  startEvent,
  stopEvent as messageStop,
  textEvent,
} from "../../support/provider/anthropicAnswers.ts";
import {
  beginning,
  begun,
  begunEvents,
  byForm,
  chatStreamForms,
  inInterface,
  streamForms,
  streams,
} from "../../support/faults/faultAnswers.ts";
import { openFaultSetup } from "../../support/faults/faultSetup.ts";
import { testBrokenStream, testFailover } from "../../support/faults/faultTests.ts";
import { created, terminal } from "../../support/provider/responsesAnswers.ts";
import { cut, piece, raw, stream, streamHead } from "../../support/provider/scriptedProvider.ts";
import { chatEvent, eventStreamHead, responseEvent } from "../../support/provider/upstreamText.ts";

/** Rows 49 to 51, 57 and 60: streams that end before their answer does. */
const setup = openFaultSetup();
const messagesOnly = ["messages stream"] as const;
const responsesOnly = ["responses stream"] as const;

const ways = ["fin", "reset"] as const;
const breaks = { forms: streamForms, before: begun } as const;
testFailover(setup, [
  ...ways.flatMap((how) => [
    {
      row: 49,
      name: `a stream dies by ${how} after its head`,
      forms: streamForms,
      answer: cut(how, streamHead),
      outcome: "closed",
    },
    {
      row: 49,
      name: `a stream dies by ${how} before its first content`,
      forms: streamForms,
      answer: byForm((form) =>
        cut(
          how,
          streamHead,
          piece(inInterface(form, { chat: roleEvent, responses: created(), messages: startEvent })),
        ),
      ),
      outcome: "closed",
    },
  ]),
  {
    row: 57,
    name: "a stream ends without content, [DONE] and finish reason",
    forms: chatStreamForms,
    answer: stream(roleEvent),
    outcome: "empty answer",
  },
  {
    row: 60,
    name: "a stream ends with its opening event",
    forms: responsesOnly,
    answer: stream(created()),
    outcome: "incomplete answer",
  },
  {
    row: 60,
    name: "a stream of messages ends with its opening event",
    forms: messagesOnly,
    answer: stream(startEvent),
    outcome: "empty answer",
  },
]);

const deaths = [
  { row: 50, how: "fin" },
  { row: 51, how: "reset" },
] as const;
const contents = [1, 2, 3, 4, 5].map((count) =>
  Array.from({ length: count }, (_, index) => `c${index}`),
);
const deltas = (texts: readonly string[]) =>
  texts.map((text) => responseEvent("response.output_text.delta", { delta: text }));

testBrokenStream(setup, [
  ...contents.flatMap((texts) =>
    deaths.map(({ row, how }) => ({
      row,
      name: `a stream dies by ${how} within its chunks after ${texts.length} events`,
      forms: streamForms,
      answer: byForm((form) => async (peer, request, client) => {
        const events = inInterface(form, {
          chat: texts.map((text) => chatEvent({ content: text })),
          responses: deltas(texts),
          messages: texts.map(textEvent),
        });
        await raw(streamHead, ...events.map(piece))(peer, request);
        if (how === "reset") await client.seen(`"${texts.at(-1)}"`);
        peer[how]();
      }),
      before: {
        chat: texts,
        responses: [deltas(texts).join(""), texts.length] as const,
        messages: texts.map(textEvent).join(""),
      },
      outcome: "closed",
    })),
  ),
  {
    ...breaks,
    row: 50,
    name: "a stream is cut in the middle of an event",
    answer: async (peer, request, client) => {
      await beginning(peer, request, client);
      await peer.send(piece('data: {"choi'));
      peer.fin();
    },
    outcome: "closed",
  },
  {
    ...breaks,
    row: 51,
    name: "a close-delimited stream ends without its terminator",
    answer: byForm((form) => cut("fin", eventStreamHead, inInterface(form, begunEvents).join(""))),
    outcome: "incomplete answer",
  },
  {
    ...breaks,
    row: 51,
    name: "a close-delimited stream is reset",
    answer: byForm((form) => async (peer, _, client) => {
      await peer.send(eventStreamHead + inInterface(form, begunEvents).join(""));
      await client.seen("Hello");
      peer.reset();
    }),
    outcome: "closed",
  },
  {
    ...breaks,
    row: 57,
    name: "a stream ends in good order without [DONE] and finish reason, without its terminal event",
    answer: streams(begunEvents),
    outcome: "incomplete answer",
  },
  {
    row: 60,
    name: "a stream is cut within its terminal event",
    forms: responsesOnly,
    answer: stream(...begunEvents.responses, terminal().slice(0, -20)),
    before: begun,
    outcome: "invalid answer",
  },
  {
    row: 60,
    name: "a stream of messages is cut within the event of its stop reason",
    forms: messagesOnly,
    answer: stream(...begunEvents.messages, endEvent().slice(0, -20)),
    before: begun,
    outcome: "incomplete answer",
  },
  {
    row: 60,
    name: "a stream of messages ends with message_stop alone",
    forms: messagesOnly,
    answer: stream(...begunEvents.messages, messageStop),
    before: begun,
    outcome: "incomplete answer",
  },
  {
    row: 60,
    name: "a stream has a terminal event without a response",
    forms: responsesOnly,
    answer: stream(...begunEvents.responses, responseEvent("response.completed")),
    before: begun,
    outcome: "invalid answer",
  },
]);
