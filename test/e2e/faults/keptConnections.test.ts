import { expect, test } from "bun:test";
import { answered } from "../../support/provider/chatAnswers.ts";
import { ask } from "../../support/gateway/chatCalls.ts";
import { everyForm, validAnswer, type FaultyAnswer } from "../../support/faults/faultAnswers.ts";
import { openFaultSetup } from "../../support/faults/faultSetup.ts";
import {
  chosenForms,
  expectEnd,
  expectUsual,
  testRow,
  usualCharge,
} from "../../support/faults/faultTests.ts";
import { chatBytes, connectRaw } from "../../support/gateway/rawClient.ts";
import type { RawPeer } from "../../support/provider/rawServer.ts";

/** Rows 16 and 17: connections that are kept for the next request, and break or speak meanwhile. */
const setup = openFaultSetup();
const ownPool = { connect_timeout: "5s" };
const done = { status: "done", charge: usualCharge };

/** Answers as `steps` say, one step for each request, and remembers the connections on which they came. */
function inTurn(seen: RawPeer[], steps: readonly FaultyAnswer[]): FaultyAnswer {
  return (peer, request, client) => {
    seen.push(peer);
    return steps[seen.length - 1]?.(peer, request, client);
  };
}

for (const how of ["fin", "reset"] as const) {
  const abortExchange: FaultyAnswer = (peer) => peer[how]();
  for (const form of chosenForms(everyForm)) {
    const once: RawPeer[] = [];
    const model = setup.model(16, {
      answer: inTurn(once, [validAnswer, abortExchange, validAnswer]),
      settings: ownPool,
      hasNext: true,
    });
    testRow(16, `a kept connection is closed by ${how} (${form}): one quiet retry`, async () => {
      for (let round = 0; round < 2; round += 1) {
        const reply = await setup.ask(form, model);
        expectUsual(form, reply);
        const record = await setup.record(reply, usualCharge);
        expectEnd(record, { ...done, provider: reply.providers[0] });
        expect(record.attempts).toMatchObject([{ outcome: "ok" }]);
      }
      expect(setup.calls(model)).toEqual([3, 0]);
      expect(once.map((peer) => peer === once[0])).toEqual([true, true, false]);
    });

    const twice: RawPeer[] = [];
    const broken = setup.model(16, {
      answer: inTurn(twice, [validAnswer, abortExchange, abortExchange, validAnswer]),
      settings: ownPool,
      hasNext: true,
    });
    testRow(16, `and the new one too, by ${how} (${form}): the next route answers`, async () => {
      expectEnd(await setup.record(await setup.ask(form, broken), usualCharge), done);
      const reply = await setup.ask(form, broken);
      expectUsual(form, reply);
      const record = await setup.record(reply, usualCharge);
      expectEnd(record, { ...done, provider: reply.providers[1] });
      expect(record.attempts).toMatchObject([{ outcome: "closed" }, { outcome: "ok" }]);
      expect(setup.calls(broken)).toEqual([3, 1]);
    });
  }
}

const evil = { content: "of another request" };
const evilUsage = { prompt_tokens: 999, completion_tokens: 999, total_tokens: 1998 };
const evilBody = JSON.stringify({
  choices: [{ index: 0, finish_reason: "stop", message: { role: "assistant", ...evil } }],
  usage: evilUsage,
});
const evilEvents = `data: ${JSON.stringify({ choices: [{ index: 0, delta: evil, finish_reason: "stop" }], usage: evilUsage })}\n\ndata: [DONE]\n\n`;
const unrequested: readonly (readonly [name: string, bytes: string])[] = [
  ["a 200", withLength("200 OK", "application/json", evilBody)],
  ["an event stream", withLength("200 OK", "text/event-stream", evilEvents)],
  ["a 408", withLength("408 Request Timeout", "text/plain", "idle for too long")],
  ["garbage", "\u0000\u0001 garbage"],
];

function withLength(status: string, type: string, body: string): string {
  return `HTTP/1.1 ${status}\r\nContent-Type: ${type}\r\nContent-Length: ${body.length}\r\n\r\n${body}`;
}

/** Which of the two the gateway finds first when it continues. */
const orders = ["the unrequested bytes", "the next request"] as const;

for (const [name, bytes] of unrequested) {
  for (const stream of [false, true]) {
    for (const earlier of orders) {
      const form = stream ? "chat stream" : "chat";
      const peers: RawPeer[] = [];
      const model = setup.model(17, {
        answer: inTurn(peers, [validAnswer, validAnswer]),
        settings: ownPool,
        hasNext: true,
      });
      // Not beside the others: the gateway is stopped meanwhile.
      test(`row 17: ${name} comes unrequested on a kept connection while the gateway is busy, ${earlier} first (${form}): the request gets its own answer`, async () => {
        const warm = await setup.ask(form, model);
        expectUsual(form, warm);
        await setup.record(warm, usualCharge);
        const client = await connectRaw(Number(new URL(setup.gateway.url).port));
        const asked = chatBytes(setup.key, JSON.stringify(ask({ model, stream })));
        // A stopped process finds everything at once when it continues, like a busy one.
        setup.gateway.signal("SIGSTOP");
        if (earlier === "the next request") client.send(asked);
        await peers[0]?.send(bytes);
        if (earlier === "the unrequested bytes") client.send(asked);
        setup.gateway.signal("SIGCONT");
        await client.seen(stream ? "[DONE]" : "chatcmpl-");
        expect(client.text).toStartWith("HTTP/1.1 200 ");
        expect(client.text).toContain("Hello");
        expect(client.text).not.toContain(evil.content);
        const id = /x-request-id: (\S+)/i.exec(client.text)?.[1] ?? "";
        client.fin();
        const record = await setup.record({ id }, usualCharge);
        expectEnd(record, { ...done, provider: setup.providersOf(model)[0] });
        expect(record.attempts).toMatchObject([{ outcome: "ok" }]);
        expect(peers.map((peer) => peer === peers[0])).toEqual([true, false]);
      });
    }
  }
}

/**
 * Bytes that arrive after a request was sent look like its answer. Bytes that arrive before can be detected. Every second
 * time the surplus follows the answer at once, otherwise as soon as the client has the answer.
 */
const rounds = 60;
let latest: RawPeer | undefined;
const evilBytes = unrequested[0]?.[1] ?? "";
const hostile = setup.model(17, {
  answer: async (peer, request) => {
    const marker = String((request.json["messages"] as { content: string }[])[0]?.content);
    const message = { role: "assistant", content: marker };
    await answered({ choices: [{ index: 0, finish_reason: "stop", message }] })(peer, request);
    if (Number(marker) % 2 === 0) await peer.send(evilBytes);
    latest = peer;
  },
  settings: ownPool,
  hasNext: true,
});
test("row 17: a provider that always sends more than was asked for: each request gets its own answer and price", async () => {
  for (let round = 0; round < rounds; round += 1) {
    const messages = [{ role: "user", content: String(round) }];
    const reply = await setup.ask("chat", hostile, { messages });
    // After the first surplus the gateway keeps no connection, so a later surplus may have no receiver.
    if (round % 2 === 1) await latest?.send(evilBytes).catch(() => undefined);
    expect(reply.body).toMatchObject({ choices: [{ message: { content: String(round) } }] });
    const record = await setup.record(reply, usualCharge);
    expectEnd(record, { ...done, provider: reply.providers[0] });
  }
  expect(setup.calls(hostile)[1]).toBe(0);
});
