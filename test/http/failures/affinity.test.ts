import { afterAll, beforeAll, beforeEach, describe, expect, test } from "bun:test";
import { LARGE_BODY_BYTES } from "../../../src/gateway/largeBodies/largeBodies.ts";
import { answered } from "../../support/provider/chatAnswers.ts";
import { ask, call, chat, type Reply } from "../../support/gateway/chatCalls.ts";
import { embeddingsAsk } from "../../support/gateway/embeddingsCalls.ts";
import type { GatewayConfig } from "../../support/gateway/gatewayConfig.ts";
import { openBefore } from "../../support/gateway/gatewayUnderTest.ts";
import { askMessage } from "../../support/gateway/messagesCalls.ts";
import { openTestApp, type TestApp, type TestKey } from "../../support/gateway/testApp.ts";
import { embeds } from "../../support/provider/embeddingsAnswers.ts";
import { refusal } from "../../support/provider/scriptedProvider.ts";

const ids = ["one", "two", "three", "four"] as const;

/** Four equal routes, in this order. */
function configOf(urls: Readonly<Record<string, string>>, affinity = "session"): GatewayConfig {
  const routes = Object.keys(urls).map((provider) => ({ provider, priority: 1, responses: false }));
  const embeddingRoutes = Object.keys(urls).map((provider) => ({ provider, priority: 1 }));
  return {
    providers: urls,
    models: [
      { id: "small", routes },
      { id: "vectors", routes: embeddingRoutes, settings: { kind: "embedding" } },
    ],
    sections: { routing: { affinity } },
  };
}

let urls: Readonly<Record<string, string>> = {};
const at = openBefore(ids, (given) => configOf((urls = given)));

/** The providers that answered, in order. */
let served: string[] = [];

function answersWell(id: (typeof ids)[number]): void {
  at.providers[id].answer = (peer, request) => {
    served.push(id);
    return (request.requestLine.includes("/embeddings") ? embeds() : answered())(peer, request);
  };
}

beforeEach(() => {
  served = [];
  ids.forEach(answersWell);
});

interface Sent {
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: object | string;
}

/** The routes that answer these requests, each once. */
async function routesOf(sends: readonly (() => Promise<Reply>)[]): Promise<readonly string[]> {
  served = [];
  for (const send of sends) expect((await send()).status).toBe(200);
  return [...new Set(served)];
}

/** So many draws at random take one of four routes all with a probability below 1e-8. */
const MANY = 16;
const many = <Value>(make: (index: number) => Value): readonly Value[] =>
  Array.from({ length: MANY }, (_, index) => make(index));

const turn = (role: string, content: unknown) => ({ role, content });

/** What names a session, in the order in which it counts. Each is a request with a value in its place. */
const headerNames = [
  "x-session-id",
  "x-claude-code-session-id",
  "session-id",
  "session_id",
  "conversation_id",
  "x-opencode-session",
  "x-session-affinity",
];
type Source = readonly [name: string, with_: (value: string) => Sent];
const inHeaders = headerNames.map((name): Source => [
  name,
  (value) => ({ headers: { [name]: value } }),
]);
const inBody: readonly Source[] = [
  ["prompt_cache_key", (value) => ({ body: { prompt_cache_key: value } })],
  ["metadata.user_id", (value) => ({ body: { metadata: { user_id: value } } })],
  ["user", (value) => ({ body: { user: value } })],
];

interface Interface {
  readonly path: string;
  readonly base: () => object;
  /** Names of members that a conversation begins with. */
  readonly conversation: readonly Source[];
}

const tool = { type: "object", properties: {} };
const interfaces: Readonly<Record<string, Interface>> = {
  chat: {
    path: "/v1/chat/completions",
    base: ask,
    conversation: [
      ["first user message", (value) => ({ body: { messages: [turn("user", value)] } })],
      [
        "system message",
        (value) => ({ body: { messages: [turn("system", value), turn("user", "hello")] } }),
      ],
      [
        "name of a tool",
        (value) => ({
          body: { tools: [{ type: "function", function: { name: value, parameters: tool } }] },
        }),
      ],
    ],
  },
  responses: {
    path: "/v1/responses",
    base: () => ({ model: "small", input: "hello" }),
    conversation: [
      ["input", (value) => ({ body: { input: value } })],
      [
        "first user message",
        (value) => ({ body: { input: [turn("user", [{ type: "input_text", text: value }])] } }),
      ],
      ["instructions", (value) => ({ body: { instructions: value } })],
      [
        "name of a tool",
        (value) => ({ body: { tools: [{ type: "function", name: value, parameters: tool }] } }),
      ],
    ],
  },
  messages: {
    path: "/v1/messages",
    base: askMessage,
    conversation: [
      ["first user message", (value) => ({ body: { messages: [turn("user", value)] } })],
      ["system", (value) => ({ body: { system: [{ type: "text", text: value }] } })],
      ["name of a tool", (value) => ({ body: { tools: [{ name: value, input_schema: tool }] } })],
    ],
  },
};

function sendTo(
  key: TestKey,
  { path, base }: Pick<Interface, "path" | "base">,
  ...parts: readonly Sent[]
) {
  const headers = Object.assign({}, ...parts.map((part) => part.headers ?? {})) as Record<
    string,
    string
  >;
  const body = Object.assign({}, base(), ...parts.map((part) => part.body ?? {})) as object;
  return () => call(at.gateway, key, { path, body, headers });
}

describe("requests of one session take one of equal routes", () => {
  for (const [name, one] of Object.entries(interfaces)) {
    const named = [...inHeaders, ...inBody];
    test.each(named)(`${name}: %s`, async (source, given) => {
      const key = await at.gateway.key();
      const [first] = one.conversation;
      const after = named.slice(named.findIndex(([other]) => other === source) + 1);
      // All that counts less differs from request to request.
      const less = (index: number): readonly Sent[] =>
        [...after, ...(first ? [first] : [])].map(([, make]) => make(`other ${index}`));
      const same = many((index) => sendTo(key, one, given("a"), ...less(index)));
      expect(await routesOf(same)).toHaveLength(1);
      const others = many((index) => sendTo(key, one, given(`session ${index}`)));
      expect((await routesOf(others)).length).toBeGreaterThan(1);
      const empty = many((index) =>
        sendTo(key, one, given(""), ...(first ? [first[1](`${index}`)] : [])),
      );
      expect((await routesOf(empty)).length).toBeGreaterThan(1);
    });

    test.each(one.conversation)(`${name}: the same %s`, async (source, given) => {
      const key = await at.gateway.key();
      expect(await routesOf(many(() => sendTo(key, one, given("a"))))).toHaveLength(1);
      const others = many((index) => sendTo(key, one, given(`begin${index}`)));
      expect((await routesOf(others)).length).toBeGreaterThan(1);
      // These differ in the size of a long text.
      const long = many((index) => sendTo(key, one, given("x".repeat(300 + index))));
      if (!source.includes("tool")) expect((await routesOf(long)).length).toBeGreaterThan(1);
    });
  }

  test("only within their account, for all of its keys", async () => {
    const sent = { headers: { "x-session-id": "mine" } };
    const accounts = await Promise.all(many(() => at.gateway.key()));
    const conversation = { path: "/v1/chat/completions", base: ask };
    for (const parts of [[sent], []]) {
      const ofMany = accounts.map((key) => sendTo(key, conversation, ...parts));
      expect((await routesOf(ofMany)).length).toBeGreaterThan(1);
    }
    const account = "shared";
    const ofOne = await Promise.all(many(() => at.gateway.key({ account })));
    expect(await routesOf(ofOne.map((key) => sendTo(key, conversation, sent)))).toHaveLength(1);
  });

  test("embeddings: by a header or `user`, else at random", async () => {
    const key = await at.gateway.key();
    const embeddings = { path: "/v1/embeddings", base: embeddingsAsk };
    for (const sent of [{ headers: { "x-session-id": "a" } }, { body: { user: "a" } }])
      expect(await routesOf(many(() => sendTo(key, embeddings, sent)))).toHaveLength(1);
    expect((await routesOf(many(() => sendTo(key, embeddings)))).length).toBeGreaterThan(1);
  });

  test("a request with an empty conversation is of no session", async () => {
    const key = await at.gateway.key();
    const sent = { body: { messages: [turn("assistant", "hello")] } };
    const { chat: one } = interfaces;
    if (one) expect((await routesOf(many(() => sendTo(key, one, sent)))).length).toBeGreaterThan(1);
  });
});

/** The JSON text with each character beyond ASCII escaped, as many clients write it. */
function escaped(value: unknown): string {
  return JSON.stringify(value).replace(
    /[^ -~]/g,
    (unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, "0")}`,
  );
}

describe("a conversation of twenty turns", () => {
  const texts = {
    short: "Привет",
    "of a few words": "Переведи на английский, пожалуйста: ёжик в тумане ".repeat(2),
    long: "Перепиши этот текст 😀\n\t\\ ".repeat(300),
  };
  for (const [length, first] of Object.entries(texts))
    for (const write of [JSON.stringify, escaped])
      test(`that grows from small to large stays (${length}, ${write.name})`, async () => {
        // The chance of staying without affinity is 4^-19.
        const key = await at.gateway.key();
        const messages = [turn("system", `Ты помощник. ${first}`), turn("user", first)];
        const sends: (() => Promise<Reply>)[] = [];
        for (let index = 0; index < 20; index += 1) {
          // The cache's mark is on the last message only, so the form of the first one changes.
          const marked = [{ type: "text", text: first, cache_control: { type: "ephemeral" } }];
          const sent = index === 0 ? [messages[0], turn("user", marked)] : messages.slice();
          const body = write(ask({ messages: sent, max_tokens: 10 }));
          sends.push(() => call(at.gateway, key, { body }));
          messages.push(
            turn("assistant", "Готово. ".repeat(900)),
            turn("user", "ещё".repeat(1500)),
          );
        }
        expect(await routesOf(sends)).toHaveLength(1);
        const large = write(ask({ messages, max_tokens: 10 }));
        expect(Buffer.byteLength(large)).toBeGreaterThan(LARGE_BODY_BYTES);
      });

  test("moves only while its route is out", async () => {
    const key = await at.gateway.key();
    const sessions = Array.from({ length: 24 }, (_, index) => `session ${index}`);
    const routes = async (): Promise<readonly string[]> => {
      const all: string[] = [];
      for (const user of sessions) {
        served = [];
        expect((await chat(at.gateway, key, { user })).status).toBe(200);
        all.push(...served);
      }
      return all;
    };
    const before = await routes();
    at.providers.two.answer = refusal(500);
    const meanwhile = await routes();
    expect(meanwhile).not.toContain("two");
    for (const [index, route] of before.entries())
      if (route !== "two") expect(meanwhile[index]).toBe(route);
    const moved = meanwhile.filter((_, index) => before[index] === "two");
    expect(new Set(moved).size).toBeGreaterThan(1);
    expect(await routes()).toEqual(meanwhile);
    answersWell("two");
    at.gateway.forgetFailures();
    expect(await routes()).toEqual(before);
  });
});

describe("two gateways", () => {
  let gateways: readonly TestApp[];
  beforeAll(async () => {
    const reversed = Object.fromEntries(Object.entries(urls).toReversed());
    gateways = await Promise.all([urls, reversed].map((given) => openTestApp(configOf(given))));
  });
  afterAll(() => Promise.all(gateways.map((gateway) => gateway.close())));

  test("with the same routes in any order make the same choice", async () => {
    const choices = gateways.map(async (gateway) => {
      const key = await gateway.key();
      return Promise.all(
        many(async (index) => {
          const reply = await chat(gateway, key, { user: `session ${index}` });
          const [{ provider } = {}] = await gateway.store.requests.attempts(reply.id);
          return provider;
        }),
      );
    });
    const [one, other] = await Promise.all(choices);
    expect(one).toEqual(other);
    expect(new Set(one).size).toBeGreaterThan(1);
  });

  test('draw at random with affinity "none"', async () => {
    const [gateway] = gateways;
    await gateway?.reload(configOf(urls, "none"));
    const key = await gateway?.key();
    const ofOne = many(
      () => () => call(gateway ?? at.gateway, key, { body: ask({ user: "one" }) }),
    );
    expect((await routesOf(ofOne)).length).toBeGreaterThan(1);
  });
});
