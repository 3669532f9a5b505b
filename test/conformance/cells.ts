import { services, type RouteKind, type Service } from "../../src/gateway/interfaces.ts";
import { costOf, prices, type Section } from "../support/gateway/gatewayConfig.ts";
import { openBefore, type GatewayUnderTest } from "../support/gateway/gatewayUnderTest.ts";
import { anthropicDialect } from "../providers/conformance/anthropicDialect.ts";
import type { Dialect, ExpectedAnswer, ExpectedUsage } from "../providers/conformance/dialect.ts";
import { geminiDialect } from "../providers/conformance/geminiDialect.ts";
import { openaiDialect } from "../providers/conformance/openaiDialect.ts";
import { openaiResponsesDialect } from "../providers/conformance/openaiResponsesDialect.ts";
import { chatSpeaker } from "./speakers/chatSpeaker.ts";
import { messagesSpeaker } from "./speakers/messagesSpeaker.ts";
import { responsesSpeaker } from "./speakers/responsesSpeaker.ts";
import type { Speaker } from "./speakers/speaker.ts";

/** One interface in front of the gateway over one kind of route behind it. */
export interface Cell {
  readonly speaker: Speaker;
  readonly routeKind: RouteKind;
  readonly service: Service;
  /** How the provider answers, and how it is asked. */
  readonly dialect: Dialect;
  /** The model with one such route. */
  readonly model: string;
  /** The model with two routes: this one and, at the second provider, one of the next kind. */
  readonly savedModel: string;
  /** How the second provider answers. */
  readonly nextDialect: Dialect;
}

/** What the config calls a route of each kind, and in which dialect it serves a chat. */
const routes: Readonly<
  Record<RouteKind, { kind: "openai" | "anthropic" | "gemini"; chat: Dialect; keys: Section }>
> = {
  openai: { kind: "openai", chat: openaiDialect, keys: { responses: false } },
  'openai, api = "responses"': {
    kind: "openai",
    chat: openaiResponsesDialect,
    keys: { responses: false, api: "responses" },
  },
  "openai, responses = true": {
    kind: "openai",
    chat: openaiDialect,
    keys: { responses: true },
  },
  'openai, api = "responses", responses = true': {
    kind: "openai",
    chat: openaiResponsesDialect,
    keys: { responses: true, api: "responses" },
  },
  anthropic: { kind: "anthropic", chat: anthropicDialect, keys: { responses: false } },
  gemini: { kind: "gemini", chat: geminiDialect, keys: { responses: false } },
};

/** The kinds, each with the next one, in a circle. */
const kinds = Object.keys(routes) as readonly RouteKind[];
const nextKinds = new Map(kinds.map((kind, at) => [kind, kinds[(at + 1) % kinds.length] ?? kind]));

const speakers: readonly Speaker[] = [chatSpeaker, responsesSpeaker, messagesSpeaker];

export const cells: readonly Cell[] = speakers.flatMap((speaker) =>
  kinds.map((routeKind): Cell => {
    const next = nextKinds.get(routeKind) ?? routeKind;
    return {
      speaker,
      routeKind,
      service: services[routeKind][speaker.endpoint],
      dialect: dialectOf(speaker, routeKind),
      model: modelOf(routeKind),
      savedModel: `saved-${modelOf(routeKind)}`,
      nextDialect: dialectOf(speaker, next),
    };
  }),
);

/** The cells that answer. */
export const servedCells = cells.filter(({ service }) => service !== "refused");

export function nameOf({ speaker, routeKind, service }: Cell): string {
  return `${speaker.endpoint} over ${routeKind}, ${service}`;
}

/** The interface that a client uses is the provider's own, or the provider serves a chat. */
function dialectOf({ endpoint }: Speaker, routeKind: RouteKind): Dialect {
  const isOwn = endpoint === "responses" && services[routeKind].responses === "native";
  return isOwn ? openaiResponsesDialect : routes[routeKind].chat;
}

/** The id of the model with one route of this kind. */
export function modelOf(routeKind: RouteKind): string {
  return `m${kinds.indexOf(routeKind)}`;
}

/** The body of the least request in a cell. */
export function helloBody({ speaker }: Cell, model: string, stream: boolean): object {
  const body = { messages: [{ role: "user", content: "hello" }], stream };
  const asks = { conversation: [{ by: "user", text: "hello" }], stream } as const;
  return { model, ...speaker.body({ body, asks }) };
}

/** An answer with one text, for tests that are about something else. */
export const shortAnswer: ExpectedAnswer & { readonly usage: ExpectedUsage } = {
  text: "Hello there, you.",
  finish: "stop",
  usage: { prompt: 7, cached: 0, cacheWrite: 0, completion: 2, reasoning: 0 },
};

/** The providers' name of every model. */
export const providersModel = "model-of-the-provider";
export const outputTokensMax = 64_000;

/** Of a token that is kept in the cache for an hour, and of a web search, in nano-roubles. */
const CACHE_WRITE_1H = 50_000;
const WEB_SEARCH = 900_000_000n;

/** A route of this kind, and the keys of its provider besides the address. */
export function routeSection(
  kind: RouteKind,
  place = "first",
): { readonly providerId: string; readonly provider: Section; readonly route: Section } {
  const { kind: providerKind, keys } = routes[kind];
  const providerId = `${place}-${providerKind}`;
  return {
    providerId,
    provider: { kind: providerKind },
    route: { provider: providerId, model: providersModel, ...keys },
  };
}

/** What the models of all cells charge for a usage, in nano-roubles. */
export function chargeOf({ reportsCacheWrites }: Dialect, usage: ExpectedUsage): bigint {
  const { cacheWrite1h = 0, webSearches = 0 } = usage;
  return (
    costOf({ ...usage, ...(!reportsCacheWrites && { cacheWrite: 0 }) }) +
    BigInt(cacheWrite1h * (CACHE_WRITE_1H - prices.cacheWrite)) +
    BigInt(webSearches) * WEB_SEARCH
  );
}

/** Opens a gateway with the models of all cells, and two providers that speak as the tests say. */
export function openCellsBefore(): GatewayUnderTest<"first" | "second"> {
  return openBefore(["first", "second"], ({ first, second }) => {
    const providerKinds = ["openai", "anthropic", "gemini"] as const;
    const providers = [
      ...providerKinds.map((kind) => [`first-${kind}`, { base_url: first, kind }] as const),
      ...providerKinds.map((kind) => [`second-${kind}`, { base_url: second, kind }] as const),
    ];
    const settings = {
      max_output_tokens: outputTokensMax,
      rub_cache_write_1h_per_1m: CACHE_WRITE_1H,
      rub_web_search_per_1k: 900_000,
      reasoning_effort: true,
    };
    return {
      providers: Object.fromEntries(providers),
      models: kinds.flatMap((kind) => {
        const next = nextKinds.get(kind) ?? kind;
        const routesOf = [routeSection(kind).route, routeSection(next, "second").route];
        return [
          { id: modelOf(kind), routes: routesOf.slice(0, 1), settings },
          { id: `saved-${modelOf(kind)}`, routes: routesOf, settings },
        ];
      }),
    };
  });
}
