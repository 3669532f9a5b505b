import { describe, expect, test } from "bun:test";
import { formatRoubles } from "../../../src/lib/money.ts";
import { serviceTiers, type ServiceTier } from "../../../src/contract/priceList.ts";
import { ask, call, expectRefusal, type Reply } from "../../support/gateway/chatCalls.ts";
import { embed } from "../../support/gateway/embeddingsCalls.ts";
import type { ConfiguredModel, Section, Table } from "../../support/gateway/gatewayConfig.ts";
import { openBefore } from "../../support/gateway/gatewayUnderTest.ts";
import { sendMessage } from "../../support/gateway/messagesCalls.ts";
import { respond } from "../../support/gateway/responsesCalls.ts";
import type { TestKey } from "../../support/gateway/testApp.ts";
import {
  endEvent,
  message,
  messageEvent,
  stopEvent as messageStop,
  textEvent,
} from "../../support/provider/anthropicAnswers.ts";
import {
  answered,
  doneEvent,
  helloEvent,
  stopEvent,
  usageOnly,
} from "../../support/provider/chatAnswers.ts";
import { embeds, geminiVectors } from "../../support/provider/embeddingsAnswers.ts";
import { geminiEvent, saying } from "../../support/provider/geminiAnswers.ts";
import { created, delta, ended, terminal } from "../../support/provider/responsesAnswers.ts";
import { json, stream, type ProviderAnswer } from "../../support/provider/scriptedProvider.ts";
import { chatEvent } from "../../support/provider/upstreamText.ts";
import { BOUGHT, RATE, SOLD, dollarSections, roubles, scaled } from "./vendorMoney.ts";
import { vendorRows, type Prices, type Served, type VendorRow } from "./vendorRows.ts";

const routeOf: Readonly<Record<Served, Section & { readonly provider: ProviderId }>> = {
  chat: { provider: "openai" },
  responses: { provider: "openai", api: "responses" },
  embeddings: { provider: "openai" },
  anthropic: { provider: "claude", responses: false },
  gemini: { provider: "gemini", responses: false },
  geminiVectors: { provider: "gemini" },
};
type ProviderId = "openai" | "claude" | "gemini";
const at = openBefore(["openai", "claude", "gemini"], ({ openai, claude, gemini }) => ({
  providers: {
    openai,
    claude: { base_url: claude, kind: "anthropic" },
    gemini: { base_url: gemini, kind: "gemini" },
  },
  models: vendorRows.map(modelOf),
  sections: dollarSections,
}));

const isEmbedding = ({ served }: VendorRow): boolean =>
  served === "embeddings" || served === "geminiVectors";
const vectorRows = vendorRows.filter(isEmbedding);
const textRows = vendorRows.filter((row) => !isEmbedding(row));

/** The model as a reseller writes it into the config. */
function modelOf(row: VendorRow): ConfiguredModel {
  const services = Object.entries(row.services ?? {}).map(([name, one]) => [name, tableOf(one)]);
  const settings = isEmbedding(row)
    ? { kind: "embedding" }
    : { max_output_tokens: 2000, context_tokens: 1_050_000, ...noRoubles };
  return {
    id: row.model,
    routes: [routeOf[row.served]],
    settings: {
      ...settings,
      rub_input_per_1m: undefined,
      ...tableOf(row.standard),
      ...(services.length > 0 && { service_tiers: Object.fromEntries(services) as Table }),
    },
  };
}

const noRoubles = {
  rub_output_per_1m: undefined,
  rub_cached_input_per_1m: undefined,
  rub_cache_write_per_1m: undefined,
};

function tableOf(prices: Prices): Table {
  const { short, above, from, long } = prices;
  if (long === undefined) return dollarKeys(short);
  const borders = { above_prompt_tokens: above, from_prompt_tokens: from };
  return { ...dollarKeys(short), tiers: [{ ...borders, ...dollarKeys(long) }] };
}

function dollarKeys(written: string): Section {
  const keys = Object.entries(dollarsOf(written));
  return Object.fromEntries(keys.map(([name, text]) => [`usd_${name}_per_1m`, Number(text)]));
}

const names = ["input", "cached_input", "cache_write", "cache_write_1h", "output"] as const;
type Name = (typeof names)[number];
type Dollars = { readonly [Key in Name]?: string };

function dollarsOf(written: string): Dollars {
  return Object.fromEntries(written.split(", ").map((one) => one.split(" "))) as Dollars;
}

type Amounts = Readonly<Record<Name, bigint>>;

/** What is not on the page costs what the page says of the rest. */
function complete(dollars: Dollars, percent: bigint): Amounts {
  const { input = "0", output = "0" } = dollars;
  const { cached_input = input, cache_write = input } = dollars;
  const { cache_write_1h = cache_write } = dollars;
  const all = { input, cached_input, cache_write, cache_write_1h, output };
  const amounts = names.map((name) => [name, roubles(all[name], percent)]);
  return Object.fromEntries(amounts) as Amounts;
}

function higher(one: Amounts, other: Amounts): Amounts {
  const amounts = names.map((name) => [name, one[name] > other[name] ? one[name] : other[name]]);
  return Object.fromEntries(amounts) as Amounts;
}

/** The fewest prompt tokens at which the prices of long prompts count. */
function borderOf({ above, from }: Prices): number | undefined {
  return above === undefined ? from : above + 1;
}

function isLong(prices: Prices, promptTokens: number): boolean {
  return promptTokens >= (borderOf(prices) ?? Infinity);
}

function dollarsFor(prices: Prices, promptTokens: number): Dollars {
  const short = dollarsOf(prices.short);
  const { long } = prices;
  return long !== undefined && isLong(prices, promptTokens)
    ? { ...short, ...dollarsOf(long) }
    : short;
}

/** The prices of a prompt of this length, as the pages tell them. */
function amountsOf(
  { standard, services = {} }: VendorRow,
  service: ServiceTier | undefined,
  promptTokens: number,
  percent = SOLD,
): Amounts {
  const usual = complete(dollarsFor(standard, promptTokens), percent);
  const own = service && services[service];
  if (own === undefined) return usual;
  const base = dollarsOf(standard.short);
  const amounts = complete({ ...base, ...dollarsFor(own, promptTokens) }, percent);
  // A service without prices of long prompts has the higher ones.
  return own.long === undefined && isLong(standard, promptTokens)
    ? higher(amounts, usual)
    : amounts;
}

interface Reported {
  readonly prompt: number;
  readonly cached: number;
  readonly write: number;
  readonly write1h: number;
  readonly output: number;
}

function costOf(usage: Reported, amounts: Amounts): bigint {
  const { prompt, cached, write, write1h, output } = usage;
  return (
    BigInt(prompt - cached - write) * amounts.input +
    BigInt(cached) * amounts.cached_input +
    BigInt(write - write1h) * amounts.cache_write +
    BigInt(write1h) * amounts.cache_write_1h +
    BigInt(output) * amounts.output
  );
}

/** What the provider of the row reports of a prompt: Gemini reports no writes to its cache, and only Claude long ones. */
function reportedBy({ served }: VendorRow, prompt: number): Reported {
  if (served === "embeddings" || served === "geminiVectors")
    return { prompt, cached: 0, write: 0, write1h: 0, output: 0 };
  const write = served === "gemini" ? 0 : 211;
  return { prompt, cached: 377, write, write1h: served === "anthropic" ? 97 : 0, output: 1009 };
}

/** Answers over each interface of the provider, JSON or stream as it is asked. */
function answering(usage: Reported, { service, word }: Case): ProviderAnswer {
  return (peer, request) => {
    const { requestLine } = request;
    const isStream =
      request.json["stream"] === true || requestLine.includes(":streamGenerateContent");
    const found = answersOf.find(([path]) => path.test(requestLine));
    if (found === undefined) throw new Error(`no answer to ${requestLine}`);
    const [, answers] = found;
    const [whole, events] = answers(usage, word, service);
    return (isStream ? stream(...events) : whole)(peer, request);
  };
}

type Answers = (
  usage: Reported,
  word: string | undefined,
  service: ServiceTier | undefined,
) => readonly [whole: ProviderAnswer, events: readonly string[]];

const answersOf: readonly (readonly [path: RegExp, answers: Answers])[] = [
  [
    /\/responses /,
    ({ prompt, cached, write, output }, service_tier) => {
      const input_tokens_details = { cached_tokens: cached, cache_write_tokens: write };
      const usage = { input_tokens: prompt, input_tokens_details, output_tokens: output };
      const end = { service_tier, usage: { ...usage, total_tokens: prompt + output } };
      return [json(ended("resp_1", end)), [created(), delta, terminal("completed", "resp_1", end)]];
    },
  ],
  [
    /\/messages /,
    (reported, word, service) => {
      const { prompt, cached, write, write1h, output } = reported;
      const usage = {
        input_tokens: prompt - cached - write,
        cache_read_input_tokens: cached,
        cache_creation_input_tokens: write,
        cache_creation: {
          ephemeral_5m_input_tokens: write - write1h,
          ephemeral_1h_input_tokens: write1h,
        },
        output_tokens: output,
        ...(service === "fast" ? { speed: word } : { service_tier: word ?? "standard" }),
      };
      const started = message({ content: [], usage: { ...usage, output_tokens: 1 } });
      const opening = { index: 0, content_block: { type: "text", text: "" } };
      return [
        json(message({ usage })),
        [
          messageEvent("message_start", { message: started }),
          messageEvent("content_block_start", opening),
          textEvent("Hello"),
          endEvent({ output_tokens: output }),
          messageStop,
        ],
      ];
    },
  ],
  [
    /\/embeddings /,
    ({ prompt }) => [embeds({ usage: { prompt_tokens: prompt, total_tokens: prompt } }), []],
  ],
  [/:batchEmbedContents /, ({ prompt }) => [json(geminiVectors([[0.5]], prompt)), []]],
  [
    /:(?:g|streamG)enerateContent/,
    ({ prompt, cached, output }) => {
      const usageMetadata = {
        promptTokenCount: prompt,
        cachedContentTokenCount: cached,
        candidatesTokenCount: output - 9,
        thoughtsTokenCount: 9,
        totalTokenCount: prompt + output,
      };
      const whole = saying([{ text: "Hello" }], "STOP", { usageMetadata });
      return [json(whole), [geminiEvent(whole)]];
    },
  ],
  [
    /\/chat\/completions /,
    ({ prompt, cached, write, output }, service_tier) => {
      const usage = {
        prompt_tokens: prompt,
        prompt_tokens_details: { cached_tokens: cached, cache_write_tokens: write },
        completion_tokens: output,
        total_tokens: prompt + output,
      };
      const named = chatEvent({}, null, { choices: [], service_tier });
      return [
        answered({ usage, service_tier }),
        [helloEvent, stopEvent, named, usageOnly(usage), doneEvent],
      ];
    },
  ],
];

/** A service tier, the word for it in requests and answers, and the length of a prompt. */
interface Case {
  readonly service?: ServiceTier;
  readonly word?: string;
  readonly promptTokens: number;
}

/** OpenAI has two words for the priority tier: https://openai.com/es-ES/api-fast-mode/ */
const wordsOf = (service: ServiceTier) =>
  service === "priority" ? ["priority", "fast"] : [service as string];

/** The field that asks for the service tier. */
function asking({ service, word }: Omit<Case, "promptTokens">): object {
  return service === "fast" ? { speed: word } : { service_tier: word };
}

/** A call to the gateway. Messages can only ask for Anthropic's fast tier. */
type Send = (key: TestKey, model: string, stream: boolean, given: Case) => Promise<Reply>;
const sends = {
  chat: (key, model, isStream, given) =>
    call(at.gateway, key, { body: ask({ model, stream: isStream, ...asking(given) }) }),
  responses: (key, model, isStream, given) =>
    respond(at.gateway, key, { model, stream: isStream, store: false, ...asking(given) }),
  messages: (key, model, isStream, given) =>
    sendMessage(at.gateway, key, {
      model,
      stream: isStream,
      ...(given.service === "fast" && asking(given)),
    }),
} satisfies Record<string, Send>;

const RICH = 1_000_000n * 1_000_000_000n;

/** Each side of each border, and a short prompt, in each service. */
function casesOf(row: VendorRow): readonly Case[] {
  const border = borderOf(row.standard);
  const lengths = border === undefined ? [1301] : [1301, border - 1, border];
  const standard = lengths.map((promptTokens): Case => ({ promptTokens }));
  const sold = serviceTiers.filter((service) => row.services?.[service] !== undefined);
  const others = sold.flatMap((service) =>
    wordsOf(service).flatMap((word) =>
      lengths.map((promptTokens): Case => ({ service, word, promptTokens })),
    ),
  );
  return standard.concat(others);
}

/** Expects the charge of a request in its record, in its header and on its receipt. */
async function expectCharge(
  key: TestKey,
  row: VendorRow,
  { id, headers }: Reply,
  { service, promptTokens }: Case,
): Promise<void> {
  const usage = reportedBy(row, promptTokens);
  const amounts = amountsOf(row, service, promptTokens);
  const charge = costOf(usage, amounts);
  const record = await at.gateway.store.requests.find(id);
  const costs = amountsOf(row, service, promptTokens, BOUGHT);
  expect(record).toMatchObject({
    status: "done",
    charge,
    writeOff: 0n,
    operatorCost: costOf(usage, costs),
  });
  const header = headers.get("x-tollgate-cost-rub");
  if (header !== null) expect(scaled(header, 9)).toBe(charge);
  const receipt = await call(at.gateway, key, { path: `/v1/requests/${id}` });
  const body = receipt.body as Readonly<Record<string, unknown>>;
  const note = {
    ...(isLong(row.standard, promptTokens) && { from_prompt_tokens: borderOf(row.standard) }),
    ...(service && { service_tier: service }),
    usd_rate: RATE,
  };
  expect(body["pricing"]).toEqual(note);
  expect(scaled(String(body["cost_rub"]), 9)).toBe(charge);
  for (const name of names)
    expect([name, body[`rub_${name}_per_1m`]]).toEqual([name, Number(amounts[name])]);
}

test("thirty rows of price pages", () => {
  expect(vendorRows.length).toBeGreaterThanOrEqual(30);
  expect(new Set(vendorRows.map(({ model }) => model)).size).toBe(vendorRows.length);
});

describe.each(Object.entries(sends))("%s", (_, send) => {
  test.each(textRows.map((row) => [row.model, row] as const))(
    "%s is charged exactly",
    async (model, row) => {
      const key = await at.gateway.key({ balance: RICH });
      for (const given of casesOf(row))
        for (const isStream of [false, true]) {
          const { provider } = routeOf[row.served];
          at.providers[provider].answer = answering(reportedBy(row, given.promptTokens), given);
          const reply = await send(key, model, isStream, given);
          expect([reply.status, reply.headers.has("x-tollgate-cost-rub")]).toEqual([
            200,
            !isStream,
          ]);
          await expectCharge(key, row, reply, given);
        }
    },
  );
});

test.each(vectorRows.map((row) => [row.model, row] as const))(
  "embeddings: %s is charged exactly",
  async (model, row) => {
    const key = await at.gateway.key({ balance: RICH });
    at.providers[routeOf[row.served].provider].answer = answering(reportedBy(row, 1301), {
      promptTokens: 1301,
    });
    const reply = await embed(at.gateway, key, { model });
    expect(reply.status).toBe(200);
    await expectCharge(key, row, reply, { promptTokens: 1301 });
  },
);

describe("a hold", () => {
  const MOST = 64;
  const longRows = textRows.flatMap((row) => {
    const border = borderOf(row.standard);
    return border === undefined ? [] : [[row.model, row, border] as const];
  });

  /** The body of a chat whose prompt has at most so many tokens: its bytes, and what a chat template may add. */
  function bodyOf(model: string, promptTokensMax: number, asked: object): string {
    const bodyWith = (content: string): string =>
      JSON.stringify(
        ask({ model, max_tokens: MOST, messages: [{ role: "user", content }], ...asked }),
      );
    return bodyWith("x".repeat(promptTokensMax - 256 - 16 - bodyWith("").length));
  }

  /** At the highest prices of the services, of prompts that are not longer. */
  function heldFor(
    row: VendorRow,
    services: readonly (ServiceTier | undefined)[],
    promptTokensMax: number,
  ): bigint {
    const { input, cached_input, cache_write, output } = services
      .flatMap((service) => [1, promptTokensMax].map((length) => amountsOf(row, service, length)))
      .reduce(higher);
    const prompt = [input, cached_input, cache_write];
    const highest = prompt.reduce((one, other) => (one > other ? one : other));
    return BigInt(promptTokensMax) * highest + BigInt(MOST) * output;
  }

  function send(key: TestKey, { served }: VendorRow, body: string): Promise<Reply> {
    const usage = { prompt: 5, cached: 0, write: 0, write1h: 0, output: 1 };
    at.providers[routeOf[served].provider].answer = answering(usage, {
      promptTokens: usage.prompt,
    });
    return call(at.gateway, key, { body });
  }

  /** The hold of a request that is answered. */
  async function hold(key: TestKey, row: VendorRow, body: string): Promise<unknown> {
    const { status, id } = await send(key, row, body);
    expect([row.model, status]).toEqual([row.model, 200]);
    return (await at.gateway.store.requests.find(id))?.hold;
  }

  test.each(longRows)("of %s has the prices that the prompt can reach", async (...given) => {
    const [model, row, border] = given;
    const asked = { service_tier: "default" };
    const [short, long] = [
      heldFor(row, [undefined], border - 1),
      heldFor(row, [undefined], border),
    ];
    // One more token at the prices of a short prompt does not pay for the long one.
    const balance = short + amountsOf(row, undefined, 1).output;
    const key = await at.gateway.key({ balance });
    const refused = await send(key, row, bodyOf(model, border, asked));
    expectRefusal(refused, [402, "billing_error", "insufficient balance"], {
      code: "insufficient_balance",
      required_rub: formatRoubles(long),
      available_rub: formatRoubles(balance),
    });
    expect(at.providers[routeOf[row.served].provider].requests).toEqual([]);
    expect(await hold(key, row, bodyOf(model, border - 1, asked))).toBe(short);
    const rich = await at.gateway.key({ balance: long });
    expect(await hold(rich, row, bodyOf(model, border, asked))).toBe(long);
  });

  test("has the highest prices of the service tiers that may answer", async () => {
    const key = await at.gateway.key({ balance: RICH });
    for (const row of textRows) {
      const { services = {} } = row;
      // A provider's project may give priority to a request that asks for nothing.
      const asks: readonly (readonly [ServiceTier | undefined, object])[] = [
        [undefined, { service_tier: "default" }],
        [services.priority && "priority", {}],
        ...serviceTiers
          .filter((service) => services[service] !== undefined)
          .flatMap((service) =>
            wordsOf(service).map((word) => [service, asking({ service, word })] as const),
          ),
      ];
      for (const [service, asked] of asks)
        expect([row.model, asked, await hold(key, row, bodyOf(row.model, 900, asked))]).toEqual([
          row.model,
          asked,
          heldFor(row, [undefined, service], 900),
        ]);
    }
  });
});
