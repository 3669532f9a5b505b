import { readAnswer } from "../auditor/answerText.ts";
import type { SeenAnswer } from "../auditor/logs.ts";
import { priceOf } from "../auditor/tokens.ts";
import { prices } from "../gateway/gatewayConfig.ts";
import { longTier, soldExtras } from "./mixedProviders.ts";

export interface MixedLoad {
  readonly requests: number;
  /** In turns; those of the kind openai unless given. */
  readonly ways?: readonly Way[];
  readonly atOnce: number;
  /** A client that has no whole answer then disconnects; none does unless given. */
  readonly withinMs?: number;
  /** Checked before each request: no more are sent once it is true. */
  isOver(): boolean;
  /** Called with each whole answer; its client waits. */
  seen(answer: SeenAnswer): Promise<void> | void;
  /** Called at the end of each request, with the times by `performance.now()`; its client waits. */
  ended?(request: EndedRequest): Promise<void> | void;
}

/** A request of a load that has ended. */
export interface EndedRequest {
  readonly beganMs: number;
  readonly endedMs: number;
  /** Undefined where no answer began. */
  readonly answer: SeenAnswer | undefined;
}

/** The answers of a load. */
export interface LoadSeen {
  readonly begun: number;
  /** Every answer that began. */
  readonly seen: readonly SeenAnswer[];
  /** The whole answers, each due at the price of its reported tokens. */
  readonly whole: readonly SeenAnswer[];
  /** The statuses of refusals. */
  readonly refusals: readonly number[];
}

const question = "Tell me something about tolls.";

/** A way to ask. */
interface Way {
  readonly path: "chat/completions" | "responses" | "messages" | "embeddings";
  readonly model: string;
  readonly stream: boolean;
}

const inBothForms = (path: Way["path"], model: string): readonly Way[] => [
  { path, model, stream: false },
  { path, model, stream: true },
];

/** For a gateway with `chatAndEmbeddings`. */
const openaiWays: readonly Way[] = [
  ...inBothForms("chat/completions", "small"),
  ...inBothForms("responses", "small"),
  { path: "embeddings", model: "vectors", stream: false },
];

/** For a gateway before the mixed providers: Messages native and translated, and fallbacks too. */
export const everyWay: readonly Way[] = [
  ...openaiWays,
  ...inBothForms("messages", "claude"),
  ...inBothForms("messages", "small"),
  ...inBothForms("chat/completions", "rescued"),
  ...inBothForms("messages", "rescued"),
];

/** Sends requests in all forms in turns, with this concurrency. Never rejects, even if the gateway ends. */
export async function sendMixedLoad(
  gateway: { readonly url: string },
  key: string,
  load: MixedLoad,
): Promise<LoadSeen> {
  const { ways = openaiWays } = load;
  const seen: SeenAnswer[] = [];
  const whole: SeenAnswer[] = [];
  let begun = 0;
  const context = async (): Promise<void> => {
    while (begun < load.requests && !load.isOver()) {
      const way = ways[begun % ways.length];
      if (way === undefined) throw new Error("a load has at least one way to ask");
      begun += 1;
      const beganMs = performance.now();
      const answer = await ask(gateway.url, key, way, { ...load, ways });
      await load.ended?.({ beganMs, endedMs: performance.now(), answer });
      if (answer === undefined) continue;
      seen.push(answer);
      if (answer.due === undefined) continue;
      whole.push(answer);
      await load.seen(answer);
    }
  };
  await Promise.all(Array.from({ length: load.atOnce }, context));
  const refusals = seen.map(({ status }) => status).filter((status) => status !== 200);
  return { begun, seen, whole, refusals };
}

/** One request; undefined where no answer to it began. */
async function ask(
  url: string,
  key: string,
  way: Way,
  { ways, withinMs }: Pick<MixedLoad, "ways" | "withinMs">,
): Promise<SeenAnswer | undefined> {
  let head: Response | undefined;
  let text = "";
  let isOver = false;
  try {
    head = await fetch(`${url}/v1/${way.path}`, {
      method: "POST",
      headers: { authorization: `Bearer ${key}` },
      body: JSON.stringify(bodyOf(way)),
      ...(withinMs !== undefined && { signal: AbortSignal.timeout(withinMs) }),
    });
    const decoder = new TextDecoder();
    for await (const bytes of head.body ?? []) text += decoder.decode(bytes, { stream: true });
    isOver = true;
  } catch {
    // The gateway has ended. The text so far may still be a whole answer.
  }
  if (head === undefined) return undefined;
  const { status, headers } = head;
  const id = headers.get("x-request-id") ?? "";
  const costRub = headers.get("x-tollgate-cost-rub");
  return {
    id,
    status,
    text,
    isOver,
    costRub,
    ...dueFor(status === 200 ? text : "", ways === everyWay),
  };
}

function bodyOf({ path, model, stream }: Way): object {
  const messages = [{ role: "user", content: question }];
  switch (path) {
    case "chat/completions": {
      const options = stream ? { stream_options: { include_usage: true } } : {};
      return { model, messages, stream, ...options };
    }
    case "responses":
      return { model, input: question, stream };
    case "messages":
      return { model, messages, stream, max_tokens: 200, ...(model === "claude" ? extras : {}) };
    case "embeddings":
      return { model, input: [question, question] };
  }
}

/** What only a provider of kind anthropic can do: a cache for an hour, and web searches. */
const extras = {
  system: [{ type: "text", text: "Be brief.", cache_control: { type: "ephemeral", ttl: "1h" } }],
  tools: [{ type: "web_search_20250305", name: "web_search", max_uses: 3 }],
};

/**
 * The expected charge of a whole answer: usage was requested, and an answer without usage must be free. Models before the mixed
 * providers have a tier for long prompts.
 */
function dueFor(text: string, hasTiers: boolean): Pick<SeenAnswer, "due"> {
  const { outcome, tokens } = readAnswer(text);
  if (outcome !== "whole") return {};
  const isTold = tokens !== undefined && tokens !== "unclear";
  if (!isTold) return { due: 0n };
  const isLong = hasTiers && tokens.prompt >= longTier.fromPromptTokens;
  const priceOutput = isLong ? BigInt(longTier.output) : configured.priceOutput;
  return { due: priceOf(tokens, { ...configured, priceOutput }) };
}

/** The prices of the models that answer, in the auditor's form. A search is priced in thousands of nano-roubles. */
const configured = {
  priceInput: BigInt(prices.input),
  priceCached: BigInt(prices.cachedInput),
  priceWritten: BigInt(prices.cacheWrite),
  priceHour: BigInt(soldExtras.cacheWrite1h),
  priceOutput: BigInt(prices.output),
  priceSearch: 1000n * BigInt(soldExtras.webSearch),
};
