import {
  historyCost,
  LEAST_TOKENS,
  MAX_TOKENS,
  planned,
  prices,
  PROMPT_TOKENS_MAX,
  type ModelName,
} from "./historyPrices.ts";
import type { ModelDemand } from "./moneyModel.ts";
import { SAID, type ReportedTokens } from "./moneyProvider.ts";

/** A way in which a request can be asked and answered. */
interface Way {
  readonly path: "chat/completions" | "responses" | "messages" | "embeddings";
  readonly model: ModelName;
  readonly stream: boolean;
}

const inBothForms = (path: Way["path"], model: ModelName): readonly Way[] => [
  { path, model, stream: false },
  { path, model, stream: true },
];

const embeddings: Way = { path: "embeddings", model: "vectors", stream: false };
/** Messages to `claude` are native, and the others are translated. */
const ways: readonly Way[] = [
  ...inBothForms("chat/completions", "small"),
  ...inBothForms("responses", "small"),
  ...inBothForms("messages", "claude"),
  ...inBothForms("messages", "small"),
  ...inBothForms("chat/completions", "rescued"),
  ...inBothForms("messages", "rescued"),
  embeddings,
];

/** A request of a history. */
export interface HistoryRequest extends Way {
  readonly words: string;
  readonly choices: number;
  /** The caller's bound of tokens for each choice. */
  readonly bound: number | undefined;
  /** Asks for a cache of one hour. */
  readonly isLong: boolean;
  readonly searchesMax: number;
  /** The account has the plan. */
  readonly hasPlan: boolean;
}

/** The request that a word means. */
export function requestOf(word: number, words: string, hasPlan: boolean): HistoryRequest {
  const way = ways[word % ways.length] ?? embeddings;
  const { path } = way;
  const isNative = way.model === "claude";
  const isBounded = (word >>> 6) % 2 === 1 || path === "messages";
  return {
    ...way,
    words,
    hasPlan,
    choices: path === "chat/completions" ? ((word >>> 4) % 3) + 1 : 1,
    bound: isBounded && path !== "embeddings" ? ((word >>> 7) % MAX_TOKENS) + 1 : undefined,
    isLong: isNative && (word >>> 12) % 2 === 0,
    searchesMax: isNative ? (word >>> 13) % 3 : 0,
  };
}

/** The most tokens of one choice. */
export function mostTokens({ path, bound }: HistoryRequest): number {
  return path === "embeddings" ? 0 : (bound ?? MAX_TOKENS);
}

type Prices = (typeof prices)[ModelName] | typeof planned;

/** The prices of the models that may answer, in both tiers. */
function possiblePrices(request: HistoryRequest) {
  const { model } = request;
  const own: Prices[] = model === "rescued" ? [prices.rescued] : [];
  return [...own, answeringPrices(request)].flatMap((all) => {
    const { long, ...short } = { long: undefined, ...all };
    return long ? [short, long] : [short];
  });
}

/** The prices of the model that answers: the fallback, if there is one. */
function answeringPrices({ model, hasPlan }: HistoryRequest): Prices {
  const answering = model === "rescued" ? "small" : model;
  return hasPlan && answering === "small" ? planned : prices[answering];
}

/** By the contract: the hold is the most that any of the models can cost. */
export function demandOf(request: HistoryRequest): ModelDemand {
  const { path, words, choices, bound, isLong, searchesMax } = request;
  const most = mostTokens(request);
  if (path === "embeddings") {
    // Two tokens at its ends, at most 16 by the contract, and one for each byte.
    const tokens = Math.min(words.length + 16, PROMPT_TOKENS_MAX);
    return { prompt: BigInt(tokens) * prices.vectors.input, unit: 0n, least: 0, most };
  }
  const all = possiblePrices(request);
  const inputs = all.flatMap(({ input, cached, cacheWrite, hour }) =>
    isLong ? [input, cached, cacheWrite, hour] : [input, cached, cacheWrite],
  );
  const { search } = answeringPrices(request);
  return {
    prompt: BigInt(PROMPT_TOKENS_MAX) * greatest(inputs) + BigInt(searchesMax) * search,
    unit: greatest(all.map(({ output }) => output)) * BigInt(choices),
    least: path === "chat/completions" && bound === undefined ? LEAST_TOKENS : most,
    most,
  };
}

const searchTool = { type: "web_search_20250305", name: "web_search" } as const;
/** The names and texts of the tool, which the model reads. */
const searchToolBytes = [...Object.entries(searchTool).flat(), "max_uses"].join("").length;
const BYTES_PER_TOKEN = 4;

/** By the contract: a quarter of the bytes of the prompt, and of what the provider said; never above the hold. */
export function estimateOf(request: HistoryRequest, tokensHeld: number): bigint {
  const { words, path, searchesMax } = request;
  const bytes = words.length + (searchesMax > 0 ? searchToolBytes : 0);
  const said = path === "embeddings" ? 0 : Math.ceil(SAID.length / BYTES_PER_TOKEN);
  return chargeOf(request, {
    ...nothing,
    prompt: Math.min(Math.ceil(bytes / BYTES_PER_TOKEN), PROMPT_TOKENS_MAX),
    completion: Math.min(said, tokensHeld),
  });
}

const nothing = { prompt: 0, cached: 0, cacheWrite: 0, hour: 0, completion: 0, searches: 0 };

/** What these tokens cost, as far as the provider of the request reports them. */
export function chargeOf(request: HistoryRequest, tokens: ReportedTokens): bigint {
  const { prompt, cached, cacheWrite } = tokens;
  const price = answeringPrices(request);
  switch (request.model) {
    case "vectors":
      return historyCost({ ...nothing, prompt }, price);
    case "claude":
      // Anthropic's input tokens leave out those of the cache.
      return historyCost({ ...tokens, prompt: prompt + cached + cacheWrite }, price);
    case "small":
    case "rescued":
      return historyCost({ ...tokens, hour: 0, searches: 0 }, price);
  }
}

/** The request as it is sent. */
export function bodyOf(request: HistoryRequest): { path: string; body: object } {
  return { path: `/v1/${request.path}`, body: { ...fieldsOf(request), model: request.model } };
}

function fieldsOf(request: HistoryRequest): object {
  const { path, stream, words, choices, bound, isLong, searchesMax } = request;
  const messages = [{ role: "user", content: words }];
  switch (path) {
    case "chat/completions":
      return { stream, messages, n: choices, max_tokens: bound };
    case "responses":
      return { stream, input: words, max_output_tokens: bound };
    case "embeddings":
      return { input: words };
    case "messages": {
      const cacheControl = { cache_control: { type: "ephemeral", ttl: "1h" } };
      const block = { type: "text", text: words, ...cacheControl };
      return {
        stream,
        messages: isLong ? [{ role: "user", content: [block] }] : messages,
        max_tokens: bound,
        ...(searchesMax > 0 && { tools: [{ ...searchTool, max_uses: searchesMax }] }),
      };
    }
  }
}

/** Usages that no interface can have: what they are for is estimated. */
const impossibleUsages: readonly unknown[] = [
  undefined,
  null,
  "12",
  {},
  { prompt_tokens: -1, completion_tokens: 1 },
  { prompt_tokens: "1", completion_tokens: 1 },
  { input_tokens: -1, output_tokens: 1 },
  { input_tokens: 1, output_tokens: 1_000_000_000 },
];
/** The same for usages with an answer. */
const impossibleAnswers: readonly unknown[] = [
  ...impossibleUsages,
  { prompt_tokens: 1, completion_tokens: 1.5 },
  { prompt_tokens: 1, completion_tokens: 1_000_000_001 },
];

export function impossibleUsage({ path }: HistoryRequest, word: number): unknown {
  const usages = path === "embeddings" ? impossibleUsages : impossibleAnswers;
  return usages[word % usages.length];
}

function greatest(amounts: readonly bigint[]): bigint {
  return amounts.reduce((most, one) => (one > most ? one : most));
}
