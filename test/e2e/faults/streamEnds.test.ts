import { expect, test } from "bun:test";
import {
  doneEvent,
  helloEvent,
  roleEvent,
  stopEvent,
  thereEvent,
  usageEvent,
} from "../../support/chatAnswers.ts";
import {
  beginning,
  begun,
  byForm,
  cut,
  responsesForms,
  streamForms,
  streams,
  usualBody,
  type FaultyAnswer,
  type Form,
} from "../../support/faultAnswers.ts";
import { openFaultBench, type FaultReply } from "../../support/faultBench.ts";
import {
  expectEnd,
  expectUsual,
  reasonOf,
  testBrokenOff,
  testPassedOver,
  testRow,
  testServed,
  textsOf,
  usualCharge,
} from "../../support/faultTests.ts";
import { costOf } from "../../support/gatewayConfig.ts";
import type { RawPeer } from "../../support/rawServer.ts";
import { created, delta, ended, terminal } from "../../support/responsesAnswers.ts";
import { piece, raw, stream, streamHead, text } from "../../support/scriptedProvider.ts";
import { chatEvent, eventStreamHead, responseEvent } from "../../support/upstreamText.ts";

/** Rows 49 to 62: how a stream can end, or fail to. */
const bench = openFaultBench();
const chatOnly = ["chat stream"] as const;
const responsesOnly = ["responses stream"] as const;

const ways = ["fin", "reset"] as const;
const breaks = { forms: streamForms, before: begun } as const;
testPassedOver(bench, [
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
        cut(how, streamHead, piece(form === "chat stream" ? roleEvent : created())),
      ),
      outcome: "closed",
    },
  ]),
  {
    row: 57,
    name: "a stream ends without content, [DONE] and finish reason",
    forms: chatOnly,
    answer: stream(roleEvent),
    outcome: "empty answer",
  },
  {
    row: 60,
    name: "a stream ends with its opening event",
    forms: responsesOnly,
    answer: stream(created()),
    outcome: "cut",
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

testBrokenOff(bench, [
  ...contents.flatMap((texts) =>
    deaths.map(({ row, how }) => ({
      row,
      name: `a stream dies by ${how} within its chunks after ${texts.length} events`,
      forms: streamForms,
      answer: (async (peer, request, client) => {
        const isChat = request.requestLine.includes("/chat/");
        const events = isChat ? texts.map((text) => chatEvent({ content: text })) : deltas(texts);
        await raw(streamHead, ...events.map(piece))(peer, request);
        if (how === "reset") await client.seen(`"${texts.at(-1)}"`);
        peer[how]();
      }) satisfies FaultyAnswer,
      before: { chat: texts, responses: [deltas(texts).join(""), texts.length] as const },
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
    answer: byForm((form) =>
      cut(
        "fin",
        eventStreamHead,
        (form === "chat stream" ? begun.chatEvents : begun.responsesEvents).join(""),
      ),
    ),
    outcome: "cut",
  },
  {
    ...breaks,
    row: 51,
    name: "a close-delimited stream is reset",
    answer: async (peer, request, client) => {
      const events = request.requestLine.includes("/chat/")
        ? begun.chatEvents
        : begun.responsesEvents;
      await peer.send(eventStreamHead + events.join(""));
      await client.seen("Hello");
      peer.reset();
    },
    outcome: "closed",
  },
  {
    ...breaks,
    row: 57,
    name: "a stream ends in good order without [DONE] and finish reason, without its terminal event",
    answer: streams({ chat: begun.chatEvents, responses: begun.responsesEvents }),
    outcome: "cut",
  },
  {
    row: 57,
    name: "a stream says [DONE] without a finish reason",
    forms: chatOnly,
    answer: stream(...begun.chatEvents, doneEvent),
    before: begun,
    outcome: "cut",
  },
  {
    row: 60,
    name: "a stream is cut within its terminal event",
    forms: responsesOnly,
    answer: stream(...begun.responsesEvents, terminal().slice(0, -20)),
    before: begun,
    outcome: "answer",
  },
  {
    row: 60,
    name: "a stream has a terminal event without a response",
    forms: responsesOnly,
    answer: stream(...begun.responsesEvents, responseEvent("response.completed")),
    before: begun,
    outcome: "answer",
  },
]);

/** Of the prompt "hello" and the answer "Hello", four bytes a token. */
const estimate = costOf({ prompt: 2, completion: 2 });
const surplus = "data: {nonsense\n\n";

function seesHello(reply: FaultReply): void {
  expect([textsOf(reply), reasonOf(reply)]).toEqual([["Hello"], "stop"]);
}

/** The usual response, but for its status. */
function responseOf(status: string): Readonly<Record<(typeof responsesForms)[number], string>> {
  return {
    responses: JSON.stringify(ended("resp_1", { status })),
    "responses stream": created() + delta + terminal(status),
  };
}

/** A response that ended so, and that it reaches the client byte for byte. */
function endedAs(status: "incomplete" | "failed") {
  return {
    forms: responsesForms,
    answer: byForm((form) =>
      form === "responses"
        ? text(responseOf(status).responses)
        : stream(responseOf(status)["responses stream"]),
    ),
    sees: (reply: FaultReply, form: Form) =>
      expect(reply.text).toBe(responseOf(status)[form as (typeof responsesForms)[number]]),
  };
}

testServed(bench, [
  {
    row: 52,
    name: "a whole stream whose framing lacks its last line end",
    forms: streamForms,
    answer: byForm((form) => cut("fin", streamHead, piece(usualBody[form]), "0\r\n")),
    charge: usualCharge,
  },
  {
    row: 55,
    name: "a stream ends without [DONE], with finish reason and usage",
    forms: chatOnly,
    answer: stream(helloEvent, stopEvent, usageEvent),
    sees: seesHello,
    charge: usualCharge,
  },
  ...ways.map((how) => ({
    row: 55,
    name: `a stream is cut by ${how} behind finish reason and usage`,
    forms: chatOnly,
    answer: cut(how, streamHead, piece(helloEvent), piece(stopEvent + usageEvent)),
    sees: seesHello,
    charge: usualCharge,
  })),
  {
    row: 56,
    name: "a stream ends after its finish reason, without usage and [DONE]",
    forms: chatOnly,
    answer: stream(helloEvent, stopEvent),
    sees: seesHello,
    charge: estimate,
    estimated: true,
  },
  {
    row: 56,
    name: "a stream stays silent after its finish reason",
    forms: chatOnly,
    answer: raw(streamHead, piece(helloEvent + stopEvent)),
    sees: seesHello,
    charge: estimate,
    estimated: true,
  },
  {
    row: 59,
    name: "two [DONE]",
    forms: chatOnly,
    answer: stream(roleEvent, helloEvent, thereEvent, stopEvent, usageEvent, doneEvent, doneEvent),
    charge: usualCharge,
  },
  { row: 61, name: "response.incomplete", ...endedAs("incomplete"), charge: usualCharge },
  { row: 62, name: "response.failed", ...endedAs("failed"), charge: 0n, status: "failed" },
  {
    row: 62,
    name: "response.failed as the first event",
    forms: responsesOnly,
    answer: stream(terminal("failed")),
    sees: (reply) => expect(reply.text).toBe(terminal("failed")),
    charge: 0n,
    status: "failed",
  },
]);

for (const form of streamForms) {
  const peers: RawPeer[] = [];
  const model = bench.model(58, {
    answer: async (peer, request) => {
      peers.push(peer);
      await raw(streamHead, piece(usualBody[form]), piece(surplus))(peer, request);
    },
    settings: { connect_timeout: "5s" },
    hasNext: true,
  });
  testRow(58, `data behind the end (${form}): ignored, the connection not kept`, async () => {
    for (let round = 0; round < 2; round += 1) {
      const reply = await bench.ask(form, model);
      expectUsual(form, reply);
      expectEnd(await bench.record(reply, usualCharge), { status: "done", charge: usualCharge });
      await bench.released(model);
    }
    expect(new Set(peers).size).toBe(2);
  });
}

test("the account paid for what was answered, and for nothing else", () => bench.checkAccount());
