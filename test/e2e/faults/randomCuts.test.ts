import { expect, test } from "bun:test";
import { cut } from "../../support/provider/scriptedProvider.ts";
import { seededRandom } from "../../support/seededRandom.ts";
import {
  endEvent,
  messageUsage,
  startEvent,
  stopEvent as messageStop,
  textEvent,
} from "../../support/provider/anthropicAnswers.ts";
import {
  completion,
  doneEvent,
  roleEvent,
  stopEvent,
  usageEvent,
} from "../../support/provider/chatAnswers.ts";
import {
  everyForm,
  interfaceOf,
  typeOf,
  usualBody,
  type Form,
} from "../../support/faults/faultAnswers.ts";
import { openFaultSetup, type FaultReply } from "../../support/faults/faultSetup.ts";
import {
  expectBroken,
  expectEnd,
  expectSaid,
  expectUsual,
  usualCharge,
} from "../../support/faults/faultTests.ts";
import { costOf } from "../../support/gateway/gatewayConfig.ts";
import { created, ended, terminal } from "../../support/provider/responsesAnswers.ts";
import { chatEvent, responseEvent } from "../../support/provider/upstreamText.ts";

/** Provider A is killed at random points of its answer: what has not reached a client is made good by B. */
const setup = openFaultSetup();
const cutsPerForm = 60;
const askedAtOnce = 16;
const testTimeoutMs = 60_000;
const seed = 12;

/** The text of A in a stream, different from B's. */
const spoken = "of A";
const spokenDelta = responseEvent("response.output_text.delta", { delta: spoken });
const spokenMessage = textEvent(spoken);
const chats = {
  json: [JSON.stringify(completion())],
  stream: [roleEvent, chatEvent({ content: spoken }), stopEvent, usageEvent, doneEvent],
};
const events: Readonly<Record<Form, readonly string[]>> = {
  chat: chats.json,
  "chat stream": chats.stream,
  responses: [JSON.stringify(ended())],
  "responses stream": [created(), spokenDelta, terminal()],
  messages: [usualBody.messages],
  "messages stream": [startEvent, spokenMessage, endEvent(messageUsage), messageStop],
  "translated messages": chats.json,
  "translated messages stream": chats.stream,
  embeddings: [usualBody.embeddings],
};
/** So many events make content, and so many a finished answer; a JSON answer is one of them, and never whole. */
const contentEvents = 2;
const finishedEvents = 3;
/** "hello" was asked and "of A" answered: four bytes a token. */
const estimate = costOf({ prompt: 2, completion: 1 });

/** One answer of A that is cut after a part, never after all of it. */
function killed(form: Form) {
  const body = events[form].join("");
  const head = `HTTP/1.1 200 OK\r\ncontent-type: ${typeOf(form)}\r\ncontent-length: ${body.length}\r\n\r\n`;
  const how = random.pick(["fin", "reset"] as const);
  const bytes = random.below(head.length + body.length);
  const model = setup.model(50, { answer: cut(how, (head + body).slice(0, bytes)), hasNext: true });
  return { form, how, model, wholeEvents: eventsWithin(events[form], bytes - head.length) };
}

/** How many events are whole within so many bytes of a body. */
function eventsWithin(all: readonly string[], bytes: number): number {
  let end = 0;
  return all.filter((event) => (end += event.length) <= bytes).length;
}

const random = seededRandom(seed);
const kills = everyForm.flatMap((form) => Array.from({ length: cutsPerForm }, () => killed(form)));

/** What became of one: `A` answered whole, `B` did, or the client had content of A's and then the error. */
async function outcomeOf({ form, model }: (typeof kills)[number]): Promise<"A" | "B" | "broken"> {
  const reply = await setup.ask(form, model);
  expect(reply.status).toBe(200);
  if (!reply.text.includes(spoken)) {
    expectUsual(form, reply);
    const record = await setup.record(reply, usualCharge);
    expectEnd(record, { status: "done", charge: usualCharge, provider: reply.providers[1] });
    expect(record.attempts).toHaveLength(2);
    return "B";
  }
  expect(setup.calls(model)).toEqual([1, 0]);
  if (reply.text.includes("upstream provider failure")) {
    expectBroken(form, reply, {
      chat: ["", spoken],
      responses: [created() + spokenDelta, 2],
      messages: startEvent + spokenMessage,
    });
    expectEnd(await setup.record(reply, 0n), { status: "failed", charge: 0n });
    return "broken";
  }
  expectWhole(form, reply);
  const isEstimated = (await setup.record(reply, 0n)).estimated;
  const charge = isEstimated ? estimate : usualCharge;
  expectEnd(await setup.record(reply, charge), { status: "done", charge });
  return "A";
}

function expectWhole(form: Form, reply: FaultReply): void {
  if (interfaceOf(form) === "chat") expectSaid(reply, ["", spoken]);
  else expect(reply.text).toBe(events[form].join(""));
}

test(
  `A is killed at ${kills.length} random points: every request without delivered content succeeds by B, and none is charged twice`,
  async () => {
    const outcomes = { A: 0, B: 0, broken: 0 };
    const waiting = [...kills];
    const context = async (): Promise<void> => {
      for (let kill = waiting.pop(); kill !== undefined; kill = waiting.pop()) {
        const outcome = await outcomeOf(kill);
        outcomes[outcome] += 1;
        // A reset may overtake what was sent before it; a FIN never does.
        const { wholeEvents, how } = kill;
        const expected =
          wholeEvents < contentEvents ? "B" : wholeEvents < finishedEvents ? "broken" : "A";
        if (how === "fin" || expected === "B") expect(outcome).toBe(expected);
      }
    };
    await Promise.all(Array.from({ length: askedAtOnce }, context));
    process.stdout.write(`seed ${seed}: ${JSON.stringify(outcomes)}\n`);
    expect(Math.min(...Object.values(outcomes))).toBeGreaterThan(0);
  },
  testTimeoutMs,
);
