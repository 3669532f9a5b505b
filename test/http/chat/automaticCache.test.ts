import { expect, test } from "bun:test";
import { formatRoubles } from "../../../src/lib/money.ts";
import { chat } from "../../support/gateway/chatCalls.ts";
import { openBefore } from "../../support/gateway/gatewayUnderTest.ts";
import { sendMessage } from "../../support/gateway/messagesCalls.ts";
import { respond } from "../../support/gateway/responsesCalls.ts";
import { message } from "../../support/provider/anthropicAnswers.ts";
import { json, type ProviderAnswer } from "../../support/provider/scriptedProvider.ts";

/** The ratios of Anthropic's own prices: a write costs 1.25 of the input, a read 0.1, an answer 5. */
const settings = {
  rub_input_per_1m: 300_000,
  rub_output_per_1m: 1_500_000,
  rub_cached_input_per_1m: 30_000,
  rub_cache_write_per_1m: 375_000,
};

const at = openBefore(["claude"], ({ claude }) => {
  const native = { provider: "claude", responses: false };
  const model = (id: string, changes: object = {}, provider = "claude") => ({
    id,
    routes: [{ ...native, provider }],
    settings: { ...settings, ...changes },
  });
  return {
    providers: {
      claude: { base_url: claude, kind: "anthropic" },
      plain: { base_url: claude, kind: "anthropic", automatic_cache: false },
    },
    models: [
      model("small"),
      model("off", {}, "plain"),
      model("unpriced", { rub_cached_input_per_1m: undefined, rub_cache_write_per_1m: undefined }),
      model("unpriced-writes", { rub_cache_write_per_1m: undefined }),
      model("dear-writes", { rub_cache_write_per_1m: 570_000 }),
    ],
  };
});

interface Sent {
  readonly cache_control?: unknown;
  readonly system?: readonly object[];
  readonly tools?: readonly object[];
  readonly messages: readonly { readonly role: string; readonly content: readonly object[] }[];
}

const CALL = { type: "tool_use", id: "toolu_1", name: "read_file", input: { path: "src/main.ts" } };
const CACHED_TOKENS_MIN = 1024;
/** The cache is looked for at this many blocks before a mark. */
const BLOCKS_BACK = 20;

/** A provider that counts tokens as Anthropic's prompt cache does, four characters each. */
function cachingProvider(): ProviderAnswer {
  const written = new Set<string>();
  return (peer, request) => {
    const sent = request.json as unknown as Sent;
    const blocks = [
      ...(sent.tools ?? []),
      ...(sent.system ?? []),
      ...sent.messages.flatMap(({ role, content }) => content.map((block) => [role, block])),
    ].map((block) => JSON.stringify(block));
    const prefix = (count: number) => blocks.slice(0, count).join("\n");
    const tokensOf = (count: number) => Math.ceil(prefix(count).length / 4);
    const total = tokensOf(blocks.length);
    const isMarked = sent.cache_control !== undefined && total >= CACHED_TOKENS_MIN;
    const back = Array.from({ length: BLOCKS_BACK }, (_, index) => blocks.length - index);
    const found = isMarked ? back.find((count) => written.has(prefix(count))) : undefined;
    const read = tokensOf(found ?? 0);
    if (isMarked) written.add(prefix(blocks.length));
    const usage = {
      input_tokens: isMarked ? 0 : total,
      cache_read_input_tokens: read,
      cache_creation_input_tokens: isMarked ? total - read : 0,
      output_tokens: 150,
    };
    return json(message({ content: [CALL], stop_reason: "tool_use", usage }))(peer, request);
  };
}

const tools = [
  {
    type: "function",
    function: {
      name: "read_file",
      description: "Reads a file. ".repeat(150),
      parameters: { type: "object", properties: { path: { type: "string" } } },
    },
  },
];
const instructions = "You are a coding agent. ".repeat(900);
const TURNS = 20;

/** What an agent pays that reads a file of 1,500 tokens in each of its turns. */
async function costOfLoop(model: string): Promise<bigint> {
  at.providers.claude.answer = cachingProvider();
  const key = await at.gateway.key({ balance: 1_000_000_000_000n });
  const messages: object[] = [
    { role: "system", content: instructions },
    { role: "user", content: "Mend the fault." },
  ];
  for (let turn = 0; turn < TURNS; turn++) {
    const { body } = await chat(at.gateway, key, { model, messages, tools });
    const [choice] = (body as { choices: [{ message: { tool_calls: [{ id: string }] } }] }).choices;
    const [{ id }] = choice.message.tool_calls;
    messages.push(choice.message, {
      role: "tool",
      tool_call_id: id,
      content: `${turn}: ${"line of code ".repeat(460)}`,
    });
  }
  const records = await at.gateway.records(key, TURNS);
  return records.reduce((sum, { charge }) => sum + charge, 0n);
}

test("a tool loop of 20 turns costs 77 % less with the automatic mark", async () => {
  const [withMark, without] = [await costOfLoop("small"), await costOfLoop("off")];
  // docs/providers/anthropic.md has these figures.
  expect([without, withMark].map(formatRoubles)).toEqual(["128.343", "29.06625"]);
});

const long = "x".repeat(5000);
const hello = { role: "user", content: long };
const mark = { cache_control: { type: "ephemeral" } };
const markedText = { type: "text", text: long, ...mark };
const askedBefore = [
  hello,
  { role: "assistant", content: "Hi." },
  { role: "user", content: "go on" },
];

test.each<[name: string, isMarked: boolean, changes: object]>([
  ["with tools", true, { messages: [hello], tools }],
  ["with an earlier answer", true, { messages: askedBefore }],
  ["of one question", false, { messages: [hello] }],
  [
    "of few tokens",
    false,
    { messages: [{ role: "user", content: "short" }, ...askedBefore.slice(1)] },
  ],
  ["with a mark on a message", false, { messages: [{ ...hello, ...mark }], tools }],
  ["with a mark on a part", false, { messages: [{ role: "user", content: [markedText] }], tools }],
  ["with a mark on a tool", false, { messages: [hello], tools: [{ ...tools[0], ...mark }] }],
  ["where the config says no", false, { messages: askedBefore, model: "off" }],
  ["where the cache has no prices", false, { messages: askedBefore, model: "unpriced" }],
  ["where writes have no price", false, { messages: askedBefore, model: "unpriced-writes" }],
  ["where a read saves too little", false, { messages: askedBefore, model: "dear-writes" }],
])("a chat %s has the automatic mark: %p", async (_name, isMarked, changes) => {
  at.providers.claude.answer = json(message());
  const key = await at.gateway.key();
  expect((await chat(at.gateway, key, changes)).status).toBe(200);
  const sent = at.providers.claude.requests[0]?.json["cache_control"];
  expect(sent).toEqual(isMarked ? { type: "ephemeral" } : undefined);
});

test("a client's own mark of the whole request is the one that is sent", async () => {
  at.providers.claude.answer = json(message());
  const cache_control = { type: "ephemeral", ttl: "5m" };
  await chat(at.gateway, await at.gateway.key(), { messages: askedBefore, cache_control });
  expect(at.providers.claude.requests[0]?.json["cache_control"]).toEqual(cache_control);
});

test("a translated response has the mark, a native message has none", async () => {
  at.providers.claude.answer = json(message());
  const key = await at.gateway.key();
  const input = askedBefore;
  expect((await respond(at.gateway, key, { model: "small", input, store: false })).status).toBe(
    200,
  );
  expect((await sendMessage(at.gateway, key, { messages: askedBefore })).status).toBe(200);
  expect(at.providers.claude.requests.map(({ json }) => json["cache_control"])).toEqual([
    { type: "ephemeral" },
    undefined,
  ]);
});

test("the hold pays for a prompt that is written to the cache as a whole", async () => {
  const usage = { input_tokens: 0, cache_creation_input_tokens: 1400, output_tokens: 1 };
  at.providers.claude.answer = json(message({ usage }));
  const key = await at.gateway.key();
  await chat(at.gateway, key, { messages: askedBefore, max_tokens: 1 });
  const [record] = await at.gateway.records(key, 1);
  expect(record?.charge).toBe(1400n * 375_000n + 1_500_000n);
  expect(record?.hold).toBeGreaterThanOrEqual(5000n * 375_000n + 1_500_000n);
});
