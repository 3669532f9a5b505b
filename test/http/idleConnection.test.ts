import { expect, test } from "bun:test";
import { authenticate } from "../../src/auth/apiKey.ts";
import { postChat } from "../../src/http/completions.ts";
import type { Entry } from "../../src/http/place.ts";
import { showUsage } from "../../src/http/usage.ts";
import { Trace } from "../../src/http/trace.ts";
import { helloEvent, usual } from "../support/provider/chatAnswers.ts";
import { ask } from "../support/gateway/chatCalls.ts";
import { openOneModelBefore } from "../support/gateway/gatewayUnderTest.ts";
import { chatBytes, connectRaw } from "../support/gateway/rawClient.ts";
import {
  piece,
  raw,
  refusal,
  streamEnd,
  streamHead,
  type ProviderAnswer,
} from "../support/provider/scriptedProvider.ts";

const at = openOneModelBefore();

/** What a connection may be silent for, in seconds: for ever while the gateway's own time-outs count. */
const OWN_TIMEOUTS = 0;
const IDLE_SECONDS = 60;

/** An entry of a key with one place, whose server only notes what silence it is to allow. */
function entryOf(request: Request): { entry: Entry; allowed: number[]; hasPlace: () => boolean } {
  const { app } = at.gateway;
  const { store, clock } = app.gateway;
  const { key } = at.gateway.key();
  const caller = authenticate(key, store.keys, clock.epochMs());
  if (!caller) throw new Error("the key is not known");
  const limits = { requestsPerMinute: 0, tokensPerMinute: 0, concurrentRequests: 1 };
  const admission = app.rateLimiter.admit(caller.id, limits);
  if (!admission.ok) throw new Error("the key has no place");
  const allowed: number[] = [];
  const server: Entry["server"] = {
    timeout(timed, seconds) {
      expect(timed).toBe(request);
      allowed.push(seconds);
    },
  };
  const { permit } = admission;
  return {
    entry: { request, trace: new Trace(app, request), caller, permit, server },
    allowed,
    hasPlace: () => app.rateLimiter.admit(caller.id, limits).ok,
  };
}

const postOf = (body: string): Request =>
  new Request("http://localhost/v1/chat/completions", { method: "POST", body });
const chat = JSON.stringify(ask());
const stream = JSON.stringify(ask({ stream: true }));

// The real server would take a minute to show it; what it is told is what there is to get wrong.
test.each<[what: string, body: string, ProviderAnswer, outcome: number | string]>([
  ["an answer in JSON", chat, usual, 200],
  ["a stream", stream, usual, 200],
  ["a stream that fails", stream, raw(streamHead, piece(helloEvent), streamEnd), 200],
  ["a refusal of the provider's", chat, refusal(500), "all providers unavailable"],
  ["a body that is not JSON", "nonsense", usual, "body is not valid JSON"],
])(
  "behind %s the connection is an idle one again, and the key's place is free",
  async (_, body, answer, outcome) => {
    at.provider.answer = answer;
    const { entry, allowed, hasPlace } = entryOf(postOf(body));
    const response = await postChat(at.gateway.app, entry).catch((error: Error) => error.message);
    if (body === stream) expect(allowed).toEqual([OWN_TIMEOUTS]);
    if (response instanceof Response) await response.text();
    expect(response instanceof Response ? response.status : response).toBe(outcome);
    expect(allowed).toEqual([OWN_TIMEOUTS, IDLE_SECONDS]);
    expect(hasPlace()).toBe(true);
  },
);

test.each([
  ["", JSON.stringify({ object: "list", data: [] })],
  ["?by=hour", "by must be one of: day, model"],
])(
  "a report of usage, which waits for its turns, is not cut while it waits (%j)",
  async (query, outcome) => {
    const { entry, allowed, hasPlace } = entryOf(new Request(`http://localhost/v1/usage${query}`));
    const answer = await showUsage(at.gateway.app, entry).catch((error: Error) => error.message);
    expect(answer).toBe(outcome);
    expect(allowed).toEqual([OWN_TIMEOUTS, IDLE_SECONDS]);
    expect(hasPlace()).toBe(true);
  },
);

test("requests that follow each other on one connection find the key's one place free", async () => {
  at.provider.answer = usual;
  const { key } = at.gateway.key({ concurrentRequests: 1 });
  const client = await connectRaw(at.gateway.port);
  for (let count = 0; count < 5; count += 1) {
    client.send(chatBytes(key, chat));
    expect((await client.response()).status).toBe(200);
  }
  client.fin();
});
