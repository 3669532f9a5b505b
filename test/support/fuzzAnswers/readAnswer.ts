import type { RawAnswer } from "../world/answerReader.ts";
import { eventsIn, type ReceivedEvent } from "../../conformance/speakers/serverSentEvents.ts";
import { chunksOf } from "../gateway/chatCalls.ts";
import { costOf } from "../gateway/gatewayConfig.ts";

type Fields = Readonly<Record<string, unknown>>;

/** A 200 as its client understands it. */
export interface ReadAnswer {
  /** `error`: the gateway's own, in the form of the stream; `failed`: the provider says itself that it failed. */
  readonly end: "whole" | "error" | "failed";
  /** Of the error. */
  readonly message: string;
  /** There is something before the end. */
  readonly hasBegun: boolean;
  /** What a chat says, by its choices, and why each ended. */
  readonly texts: ReadonlyMap<number, string>;
  readonly reasons: ReadonlyMap<number, string>;
  /** The price of the usage that is shown; undefined where none is. */
  readonly charge: bigint | undefined;
  /** What it holds of the provider's bytes, where those are passed on. */
  readonly relayed: string;
  /** The objects that must fit the description of a chat's answer or chunk. */
  readonly objects: readonly unknown[];
  readonly problems: readonly string[];
}

const nothing: Omit<ReadAnswer, "end"> = {
  message: "",
  hasBegun: true,
  texts: new Map(),
  reasons: new Map(),
  charge: undefined,
  relayed: "",
  objects: [],
  problems: [],
};

/** Reads the 200 to a chat. Throws where it is none. */
export function readChatJson({ body }: RawAnswer): ReadAnswer {
  const answer = JSON.parse(textOf(body)) as Fields;
  const choices = answer["choices"] as { index: number; message: Fields; finish_reason: string }[];
  return {
    ...nothing,
    end: "whole",
    texts: new Map(choices.map(({ index, message }) => [index, String(message["content"])])),
    reasons: new Map(choices.map(({ index, finish_reason }) => [index, finish_reason])),
    charge: chatCharge(answer["usage"] as Fields),
    objects: [answer],
  };
}

interface Chunk extends Fields {
  readonly choices: readonly {
    readonly index: number;
    readonly delta: Fields & { readonly content?: string };
    readonly finish_reason: string | null;
  }[];
}

/** Reads a chat's stream to its end. Throws where it has none. */
export function readChatStream(
  { body }: RawAnswer,
  { showsUsage, choiceCount }: { readonly showsUsage: boolean; readonly choiceCount: number },
): ReadAnswer {
  const text = withoutComments(textOf(body));
  const chunks = chunksOf({ text }) as Chunk[];
  const texts = new Map<number, string>();
  const reasons = new Map<number, string>();
  for (const { index, delta, finish_reason } of chunks.flatMap(({ choices }) => choices)) {
    texts.set(index, (texts.get(index) ?? "") + (delta.content ?? ""));
    if (finish_reason !== null) reasons.set(index, finish_reason);
  }
  const failures = chunks.filter((chunk) => "error" in chunk);
  const usages = chunks.filter((chunk) => "usage" in chunk);
  const isBroken = failures.length > 0;
  const shown = usages.at(-1)?.["usage"] as Fields | undefined;
  const rules: readonly (readonly [boolean, string])[] = [
    [chunks.length > 0, "no chunk at all"],
    [!isBroken || failures[0] === chunks.at(-1), "a failure before the end of a stream"],
    [
      usages.length <= 1 && (!shown || usages[0] === chunks.at(-1)),
      "usage before the end of a stream",
    ],
    [isBroken || (shown !== undefined) === showsUsage, "usage is not shown as it was asked for"],
    [isBroken || isEnded(chunks, reasons, choiceCount), "a choice that began has no end"],
  ];
  return {
    ...nothing,
    end: isBroken ? "error" : "whole",
    message: wordsIn(failures[0]?.["error"]),
    hasBegun: chunks.length > failures.length,
    texts,
    reasons,
    charge: shown && chatCharge(shown),
    objects: chunks,
    problems: kept(rules),
  };
}

/** Every choice that was asked for and has content has a finish reason, which is not that of the failure. */
function isEnded(
  chunks: readonly Chunk[],
  reasons: ReadonlyMap<number, string>,
  choiceCount: number,
): boolean {
  const spoken = chunks
    .flatMap(({ choices }) => choices)
    .filter(({ delta }) => Object.keys(delta).some((name) => name !== "role" && delta[name]));
  const ends = [...reasons.values()];
  const isWhole = reasons.size >= choiceCount || spoken.every(({ index }) => reasons.has(index));
  return isWhole && ends.length > 0 && !ends.includes("error");
}

/** Reads the 200 to a responses request. Throws where it is none. */
export function readResponseJson({ body }: RawAnswer): ReadAnswer {
  const relayed = textOf(body);
  const response = JSON.parse(relayed) as Fields;
  if (response["object"] !== "response") throw new Error("it is no response");
  const isFailed = response["status"] === "failed";
  const charge = isFailed ? undefined : responseCharge(response["usage"]);
  return { ...nothing, end: isFailed ? "failed" : "whole", charge, relayed };
}

const failureEvent =
  /event: error\ndata: \{"type":"error","code":"(?:provider|invalid_request)_error","message":"[^\n]*","param":null,"sequence_number":\d+,"error":\{[^\n]*\}\}\n\n$/;
/** A refusal after the head of a stream has the provider's own code and parameter. */
const refusalEvent = /^event: error\ndata: \{"type":"error","code":[^\n]*\}\n\n$/;

/** Reads a responses stream to its end, by the standard alone. Throws where it has none. */
export function readResponseStream({ body }: RawAnswer): ReadAnswer {
  const text = withoutComments(body.toString());
  const events = eventsIn(text);
  const last = events.at(-1);
  if (last === undefined) throw new Error("a stream without events");
  if (!/(?:\r\n|\n|\r){2}$/.test(text)) throw new Error("a stream ends within an event");
  const [failure] = failureEvent.exec(text) ?? refusalEvent.exec(text) ?? [];
  const relayed = failure === undefined ? text : text.slice(0, -failure.length);
  const type = typeOf(last);
  if (failure !== undefined && type === "error")
    return {
      ...nothing,
      end: "error",
      message: wordsIn(fieldsIn(last)),
      hasBegun: events.length > 1,
      relayed,
    };
  const terminals = events.map(typeOf).filter((one) => endings.has(one));
  if (!endings.has(type)) throw new Error("a stream without an end");
  const response = fieldsOf(fieldsIn(last)["response"]);
  const isFailed = type === "response.failed";
  return {
    ...nothing,
    end: isFailed ? "failed" : "whole",
    charge: isFailed ? undefined : responseCharge(response["usage"]),
    relayed,
    problems: kept([[terminals.length === 1, "a stream with two ends"]]),
  };
}

const endings = new Set(["response.completed", "response.incomplete", "response.failed"]);

/** Clients go by the name of an event, or by the type in its data. */
function typeOf(event: ReceivedEvent): string {
  const { name } = event;
  if (name !== undefined && /^(?:response\..*|error)$/.test(name)) return name;
  const { type } = fieldsIn(event);
  return typeof type === "string" ? type : (name ?? "");
}

function fieldsIn({ data }: ReceivedEvent): Fields {
  try {
    return fieldsOf(JSON.parse(data));
  } catch {
    return {};
  }
}

function wordsIn(error: unknown): string {
  const { message } = fieldsOf(error);
  return typeof message === "string" ? message : "";
}

function fieldsOf(value: unknown): Fields {
  return typeof value === "object" && value !== null ? (value as Fields) : {};
}

function textOf(body: Buffer): string {
  return new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(body);
}

/** Without those of the gateway's own: no provider of a run writes one alike. */
function withoutComments(text: string): string {
  return text.replaceAll(": keep-alive\n\n", "");
}

function chatCharge(usage: Fields): bigint {
  const details = fieldsOf(usage["prompt_tokens_details"]);
  return costOf({
    prompt: Number(usage["prompt_tokens"]),
    completion: Number(usage["completion_tokens"]),
    cached: Number(details["cached_tokens"]),
    cacheWrite: Number(details["cache_write_tokens"]),
  });
}

const implausibleTokens = 1_000_000_000;

/** The price of a usage that can be one; cached parts over the prompt are cut. */
function responseCharge(value: unknown): bigint | undefined {
  const usage = fieldsOf(value);
  const details = fieldsOf(usage["input_tokens_details"] ?? usage);
  const prompt = countOf(usage["input_tokens"]);
  const completion = countOf(usage["output_tokens"]);
  if (prompt === undefined || completion === undefined) return undefined;
  if (Math.max(prompt, completion) >= implausibleTokens) return undefined;
  const cached = Math.min(countOf(details["cached_tokens"]) ?? 0, prompt);
  const written = countOf(details["cache_write_tokens"]) ?? 0;
  return costOf({ prompt, completion, cached, cacheWrite: Math.min(written, prompt - cached) });
}

function countOf(value: unknown): number | undefined {
  return typeof value === "number" && Number.isSafeInteger(value) && value >= 0 ? value : undefined;
}

/** What is said of the rules that do not hold. */
export function kept(rules: readonly (readonly [boolean, string])[]): string[] {
  return rules.flatMap(([isKept, problem]) => (isKept ? [] : [problem]));
}
