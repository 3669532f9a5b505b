import { describe, expect, test } from "bun:test";
import { agentBody, type AgentForm } from "../../../bench/gateway/agentBody.ts";
import { LARGE_BODY_BYTES, LargeBodies } from "../../../src/gateway/largeBodies/largeBodies.ts";
import { systemClock } from "../../../src/lib/clock.ts";
import { ask, call, chat } from "../../support/gateway/chatCalls.ts";
import { openBefore, openOneModelBefore } from "../../support/gateway/gatewayUnderTest.ts";
import { chatBytes, connectRaw } from "../../support/gateway/rawClient.ts";
import { usualMessage } from "../../support/provider/anthropicAnswers.ts";
import { usual } from "../../support/provider/chatAnswers.ts";
import { embeds, geminiVectors } from "../../support/provider/embeddingsAnswers.ts";
import { usualGemini } from "../../support/provider/geminiAnswers.ts";
import { responds } from "../../support/provider/responsesAnswers.ts";
import { json } from "../../support/provider/scriptedProvider.ts";
import { until } from "../../support/until.ts";

const at = openOneModelBefore();

const large = { messages: [{ role: "user", content: "word ".repeat(LARGE_BODY_BYTES / 4) }] };

/** Clients of one account, each of which has sent the head and the first half of a large body. */
async function halfSent(key: string, count: number) {
  const bytes = chatBytes(key, JSON.stringify(ask(large)));
  const half = Math.floor(bytes.length / 2);
  const clients = await Promise.all(
    Array.from({ length: count }, () => connectRaw(at.gateway.port)),
  );
  for (const client of clients) client.send(bytes.slice(0, half));
  return clients.map((client) => ({ client, finish: () => client.send(bytes.slice(half)) }));
}

describe("while an account's large body is read", () => {
  test("other requests of the account, and large ones of others, are answered", async () => {
    at.provider.answer = usual;
    const key = await at.gateway.key();
    const [half] = await halfSent(key.key, 1);
    await until("the body is read", () => at.gateway.app.bodies.heldBytes > LARGE_BODY_BYTES);
    for (const fields of [{}, large])
      expect((await chat(at.gateway, key, fields)).status).toBe(200);
    expect((await chat(at.gateway, await at.gateway.key(), large)).status).toBe(200);
    half?.finish();
    expect((await half?.client.response())?.status).toBe(200);
    half?.client.reset();
  });

  test("a client may disconnect", async () => {
    at.provider.answer = usual;
    const key = await at.gateway.key();
    const bodies = await halfSent(key.key, 8);
    await until("all have begun", () => at.gateway.app.requests.open === 8);
    for (const { client } of bodies) client.reset();
    await until("none is open", () => at.gateway.app.requests.open === 0);
    expect(at.gateway.app.bodies.heldBytes).toBe(0);
  });
});

test("clients that disconnect while their large bodies wait for the Worker leave nothing", async () => {
  at.provider.answer = usual;
  const key = await at.gateway.key();
  const bodies = await halfSent(key.key, 8);
  await until("all have begun", () => at.gateway.app.requests.open === 8);
  for (const { finish } of bodies) finish();
  for (const { client } of bodies) client.reset();
  expect((await chat(at.gateway, key, large)).status).toBe(200);
  await until("none is open", () => at.gateway.app.requests.open === 0);
  expect(at.gateway.app.bodies.heldBytes).toBe(0);
});

test("large bodies of many clients are all answered, declared or in chunks", async () => {
  at.provider.answer = usual;
  const keys = await Promise.all([at.gateway.key(), at.gateway.key()]);
  const replies = await Promise.all(
    Array.from({ length: 12 }, (_, index) => chat(at.gateway, keys[index % 2], large)),
  );
  const body = JSON.stringify(ask(large));
  const chunked = await fetch(`${at.gateway.url}/v1/chat/completions`, {
    method: "POST",
    headers: { authorization: `Bearer ${keys[0].key}` },
    body: new Blob([body]).stream(),
  });
  await chunked.text();
  expect([...replies, chunked].map(({ status }) => status)).toEqual(Array(13).fill(200));
});

const roomy = openOneModelBefore({}, {}, { context_tokens: 2_000_000 });

test("the money that is held pays for each byte of a large body", async () => {
  const requiredFor = async (characters: number): Promise<number> => {
    // It has money for a short request.
    const key = await roomy.gateway.key({ balance: 100_000_000n });
    const messages = [{ role: "user", content: "x".repeat(characters) }];
    const { status, body } = await chat(roomy.gateway, key, { messages, max_tokens: 1 });
    expect(status).toBe(402);
    return Number((body as { error: { required_rub: string } }).error.required_rub);
  };
  const [one, three] = [await requiredFor(100_000), await requiredFor(300_000)];
  expect(three / one).toBeCloseTo(3, 1);
});

const kinds = openBefore(["local", "claude", "google"], ({ local, claude, google }) => ({
  providers: {
    local: { base_url: local },
    claude: { base_url: claude, kind: "anthropic" },
    google: { base_url: google, kind: "gemini" },
  },
  models: [
    { id: "openai", routes: [{ provider: "local", responses: false }] },
    { id: "responses", routes: [{ provider: "local", responses: true }] },
    { id: "overResponses", routes: [{ provider: "local", api: "responses", responses: false }] },
    { id: "anthropic", routes: [{ provider: "claude", responses: false }] },
    { id: "gemini", routes: [{ provider: "google", responses: false }] },
    { id: "vectors", settings: { kind: "embedding" }, routes: [{ provider: "local" }] },
    { id: "geminiVectors", settings: { kind: "embedding" }, routes: [{ provider: "google" }] },
  ],
}));

const paths = {
  chat: "/v1/chat/completions",
  responses: "/v1/responses",
  messages: "/v1/messages",
};
const PADDING = "word ".repeat(LARGE_BODY_BYTES / 4);
const SHORT = "word word";

describe("a provider gets of a large body what it gets of a short one", () => {
  for (const form of ["chat", "responses", "messages"] as const) {
    for (const model of ["openai", "responses", "overResponses", "anthropic", "gemini"]) {
      test(`${form} over ${model}`, async () => {
        const { local, claude, google } = kinds.providers;
        local.answer = (peer, request) =>
          request.requestLine.includes("/responses")
            ? responds()(peer, request)
            : usual(peer, request);
        claude.answer = usualMessage;
        google.answer = usualGemini;
        const key = await kinds.gateway.key();
        const sent = async (padding: string): Promise<string> => {
          const body = padded(form, model, padding);
          const reply = await call(kinds.gateway, key, { path: paths[form], body });
          expect([reply.status, reply.text.slice(0, 300)]).toEqual([200, expect.any(String)]);
          const [request] = [local, claude, google].flatMap(({ requests }) => requests);
          for (const provider of [local, claude, google]) provider.forget();
          local.answer = (peer, asked) =>
            asked.requestLine.includes("/responses") ? responds()(peer, asked) : usual(peer, asked);
          claude.answer = usualMessage;
          google.answer = usualGemini;
          return request?.body ?? "";
        };
        const short = await sent(SHORT);
        const long = await sent(PADDING);
        expect(short).toContain(SHORT);
        expect(long.length).toBeGreaterThan(LARGE_BODY_BYTES);
        expect(long.replace(PADDING, SHORT)).toBe(short);
      });
    }
  }

  test("embeddings", async () => {
    const { local, google } = kinds.providers;
    const key = await kinds.gateway.key();
    for (const [model, provider] of [
      ["vectors", local],
      ["geminiVectors", google],
    ] as const) {
      const sent = async (padding: string): Promise<string> => {
        local.answer = embeds();
        google.answer = json(geminiVectors([[1], [2]]));
        const body = { model, input: ["hello", padding], dimensions: 8 };
        const reply = await call(kinds.gateway, key, { path: "/v1/embeddings", body });
        expect([reply.status, reply.text.slice(0, 300)]).toEqual([200, expect.any(String)]);
        const text = provider.requests[0]?.body ?? "";
        provider.forget();
        return text;
      };
      const short = await sent(SHORT);
      expect((await sent(PADDING)).replace(PADDING, SHORT)).toBe(short);
    }
  });
});

function padded(form: AgentForm, model: string, padding: string): string {
  const fields = form === "messages" ? { max_tokens: 100 } : {};
  const body = agentBody({ form, model, bytes: 20_000, fields });
  // A question of the conversation, which is in each form.
  const mark = form === "responses" ? '"input_text","text":"' : '"type":"text","text":"';
  const from = body.lastIndexOf(mark);
  return body.slice(0, from + mark.length) + padding + body.slice(from + mark.length);
}

test.each<[string, string]>([
  [
    "body is not valid JSON",
    `{"model":"small","messages":[{"role":"user","content":"${PADDING}\\x"}]}`,
  ],
  [
    "invalid unicode",
    `{"model":"small","messages":[{"role":"user","content":"${PADDING}\\ud800"}]}`,
  ],
  [
    "role stands twice",
    `{"model":"small","messages":[{"role":"user","role":"user","content":"${PADDING}"}]}`,
  ],
  ["messages[0].role is required", `{"model":"small","messages":[{"content":"${PADDING}"}]}`],
  ["body must be a JSON object", `["${PADDING}"]`],
  [
    "stream must be a boolean",
    `{"model":"small","messages":[{"role":"user","content":"${PADDING}"}],"stream":1}`,
  ],
])("a large body gets the 400 of a short one: %s", async (message, body) => {
  const key = await at.gateway.key();
  const reply = await call(at.gateway, key, { body });
  expect([reply.status, reply.body]).toEqual([
    400,
    { error: { message, type: "invalid_request_error" } },
  ]);
});

/** A body of a chat. */
const held = (content: string): { bytes: Uint8Array } => ({
  bytes: new Uint8Array(
    Buffer.from(JSON.stringify(ask({ messages: [{ role: "user", content }] }))),
  ),
});
const rules = {
  unknownFields: "forward",
  refusedFields: [],
  refusedTools: [],
  allowedTools: [],
  extraReasoningEfforts: [],
} as const;

describe("the Worker for large bodies", () => {
  test("takes the bodies of the accounts in turns", async () => {
    const bodies = new LargeBodies(systemClock);
    const done: string[] = [];
    const check = (account: number, name: string) =>
      bodies.check(account, held(name), "checkChat", rules).then(() => done.push(name));
    await Promise.all([
      check(1, "a1"),
      check(1, "a2"),
      check(1, "a3"),
      check(2, "b1"),
      check(3, "c1"),
    ]);
    expect(done).toEqual(["a1", "a2", "b1", "c1", "a3"]);
    bodies.close();
  });

  test("goes on after a body that cannot be sent to it", async () => {
    const bodies = new LargeBodies(systemClock);
    const [away, here] = [held("away"), held("here")];
    structuredClone(away.bytes, { transfer: [away.bytes.buffer as ArrayBuffer] });
    const results = await Promise.allSettled(
      [away, here].map((body) => bodies.check(1, body, "checkChat", rules)),
    );
    expect(results.map(({ status }) => status)).toEqual(["rejected", "fulfilled"]);
    bodies.close();
  });

  test("ends one request if it dies, and is started again for the others", async () => {
    let starts = 0;
    const bodies = new LargeBodies(systemClock, () => {
      starts += 1;
      const broken = new URL("../../support/gateway/brokenWorker.ts", import.meta.url);
      const whole = new URL("../../../src/gateway/largeBodies/worker.ts", import.meta.url);
      return new Worker((starts === 1 ? broken : whole).href);
    });
    const [first, second] = [held("first"), held("second")];
    const results = await Promise.allSettled(
      [first, second].map((body) => bodies.check(1, body, "checkChat", rules)),
    );
    expect(results.map(({ status }) => status)).toEqual(["rejected", "fulfilled"]);
    expect(starts).toBe(2);
    // What died with the Worker is sent nowhere.
    expect(() => first.bytes).toThrow();
    expect(Buffer.from(second.bytes).toString()).toContain("second");
    bodies.close();
  });
});
