import { expect } from "bun:test";
import {
  endEvent,
  messageUsage,
  stopEvent as messageStop,
} from "../../support/provider/anthropicAnswers.ts";
import {
  doneEvent,
  helloEvent,
  roleEvent,
  stopEvent,
  thereEvent,
  usageEvent,
} from "../../support/provider/chatAnswers.ts";
import {
  begunEvents,
  byForm,
  chatStreamForms,
  responsesForms,
  streamForms,
  usualBody,
  type Form,
} from "../../support/faults/faultAnswers.ts";
import { openFaultSetup, type FaultReply } from "../../support/faults/faultSetup.ts";
import {
  expectEnd,
  expectUsual,
  expectSaid,
  testRow,
  testServed,
  usualCharge,
} from "../../support/faults/faultTests.ts";
import { costOf } from "../../support/gateway/gatewayConfig.ts";
import type { RawPeer } from "../../support/provider/rawServer.ts";
import { created, delta, ended, terminal } from "../../support/provider/responsesAnswers.ts";
import {
  cut,
  piece,
  raw,
  stream,
  streamEnd,
  streamHead,
  text,
} from "../../support/provider/scriptedProvider.ts";

/** Rows 52, 55 to 59, 61 and 62: streams whose answer is whole, however they end. */
const setup = openFaultSetup();
const messagesOnly = ["messages stream"] as const;
const responsesOnly = ["responses stream"] as const;
const ways = ["fin", "reset"] as const;

/** Of the prompt "hello" and the answer "Hello", four bytes a token. */
const estimate = costOf({ prompt: 2, completion: 2 });
const surplus = "data: {nonsense\n\n";

const begun = begunEvents.messages.join("");

/** A terminator follows, also where the provider sent none. */
function seesMessage(reply: FaultReply): void {
  expect(reply.text).toBe(begun + endEvent(messageUsage) + messageStop);
}

function seesHello(reply: FaultReply): void {
  expectSaid(reply, ["Hello"]);
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

testServed(setup, [
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
    forms: chatStreamForms,
    answer: stream(helloEvent, stopEvent, usageEvent),
    sees: seesHello,
    charge: usualCharge,
  },
  ...ways.map((how) => ({
    row: 55,
    name: `a stream is cut by ${how} after finish reason and usage`,
    forms: chatStreamForms,
    answer: cut(how, streamHead, piece(helloEvent), piece(stopEvent + usageEvent)),
    sees: seesHello,
    charge: usualCharge,
  })),
  ...ways.map((how) => ({
    row: 55,
    name: `a stream of messages is cut by ${how} after its stop reason and usage`,
    forms: messagesOnly,
    answer: cut(how, streamHead, piece(begun), piece(endEvent(messageUsage))),
    sees: seesMessage,
    charge: usualCharge,
  })),
  {
    row: 55,
    name: "a stream of messages stays silent after its stop reason and usage",
    forms: messagesOnly,
    answer: raw(streamHead, piece(begun + endEvent(messageUsage))),
    sees: seesMessage,
    charge: usualCharge,
  },
  {
    row: 59,
    name: "two message_stop",
    forms: messagesOnly,
    answer: stream(usualBody["messages stream"], messageStop),
    charge: usualCharge,
  },
  {
    row: 56,
    name: "a stream ends after its finish reason, without usage and [DONE]",
    forms: chatStreamForms,
    answer: stream(helloEvent, stopEvent),
    sees: seesHello,
    charge: estimate,
    estimated: true,
  },
  {
    row: 56,
    name: "a stream stays silent after its finish reason",
    forms: chatStreamForms,
    answer: raw(streamHead, piece(helloEvent + stopEvent)),
    sees: seesHello,
    charge: estimate,
    estimated: true,
  },
  {
    row: 57,
    name: "a stream says [DONE], but no finish reason",
    forms: chatStreamForms,
    answer: stream(helloEvent, usageEvent, doneEvent),
    sees: seesHello,
    charge: usualCharge,
  },
  {
    row: 58,
    name: "data after the end, but within the framing",
    forms: streamForms,
    answer: byForm((form) => stream(usualBody[form], surplus)),
    charge: usualCharge,
  },
  {
    row: 59,
    name: "two [DONE]",
    forms: chatStreamForms,
    answer: stream(roleEvent, helloEvent, thereEvent, stopEvent, usageEvent, doneEvent, doneEvent),
    charge: usualCharge,
  },
  { row: 61, name: "response.incomplete", ...endedAs("incomplete"), charge: usualCharge },
  {
    row: 62,
    name: "response.failed",
    ...endedAs("failed"),
    charge: usualCharge,
    status: "cancelled",
    outcome: "reported failure",
  },
  {
    row: 62,
    name: "response.failed as the first event",
    forms: responsesOnly,
    answer: stream(terminal("failed")),
    sees: (reply) => expect(reply.text).toBe(terminal("failed")),
    charge: 0n,
    status: "failed",
    outcome: "reported failure",
  },
]);

/** What a client has once its stream is whole. */
const endOf = {
  "chat stream": "[DONE]",
  "responses stream": "response.completed",
  "messages stream": "message_stop",
  "translated messages stream": "message_stop",
} as const;

for (const form of streamForms) {
  const peers: RawPeer[] = [];
  const model = setup.model(58, {
    answer: async (peer, request, client) => {
      peers.push(peer);
      await raw(streamHead, piece(usualBody[form]))(peer, request);
      await client.seen(endOf[form]);
      await peer.send(piece(surplus));
      // A gateway that takes the surplus for nothing would be content with this end, and keep the connection.
      await Promise.race([peer.closed, Bun.sleep(300)]);
      await peer.send(streamEnd);
    },
    settings: { connect_timeout: "5s" },
    hasNext: true,
  });
  testRow(58, `data after the end (${form}): ignored, the connection not kept`, async () => {
    for (let round = 0; round < 2; round += 1) {
      const reply = await setup.ask(form, model);
      expectUsual(form, reply);
      expectEnd(await setup.record(reply, usualCharge), { status: "done", charge: usualCharge });
      await peers[round]?.closed;
    }
    expect(new Set(peers).size).toBe(2);
  });
}
