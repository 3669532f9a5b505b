import type { OtherCounts } from "../contract/figures.ts";
import type { ProviderConfig } from "../config/schema.ts";
import type { ChatRequest } from "../contract/chat/chatRequest.ts";
import type { EmbeddingsFigures, EmbeddingsRequest } from "../contract/embeddings.ts";
import type { Usage } from "../contract/usage.ts";
import { isDeeperThan, type JsonFields, type JsonObjectText, memberText } from "../lib/json.ts";
import { ANSWER_COST_FACTOR, CostlyJsonError, parseUntrusted } from "../lib/untrustedJson.ts";
import type { UpstreamFault, UpstreamOutcome } from "./upstreamError.ts";

export interface ChatCall {
  readonly request: ChatRequest;
  /** The client's own text with the positions of its members. */
  readonly object: JsonObjectText;
  /** The provider's name for the model. */
  readonly model: string;
  /** The `max_tokens` to send for each choice; undefined sends none if the interface allows that. */
  readonly outputTokensBound: number | undefined;
  /** The completion tokens held for each choice. An interface that requires a bound gets this one. */
  readonly outputTokensMax: number;
  readonly options: ChatOptions;
  /** Replaces the client's maximum of calls of the provider's tools; undefined leaves it. */
  readonly toolCallsMax?: number | undefined;
  /** True: the prompt is long enough for the provider's cache, and caching pays. It needs no mark of the client. */
  readonly cachesPrompt?: boolean;
}

export type ChatOptions = Pick<
  ProviderConfig,
  "maxTokensField" | "streamUsage" | "dropMessageFields" | "dropFields"
>;

/** `path` is appended to the provider's base URL. */
export interface EncodedRequest {
  readonly path: string;
  /** Headers of this request. A header of the same name in the provider's config wins. */
  readonly headers?: Readonly<Record<string, string>>;
  /** Text, or its UTF-8 in pieces. */
  readonly body: string | readonly Uint8Array[];
  /** The limit in bytes for an answer in JSON. Default: ANSWER_BYTES_MAX. */
  readonly answerBytesMax?: number;
}

/**
 * The limit in bytes for an answer in JSON and for one event of a stream. The last event of a response repeats the whole
 * answer, with log probabilities, instructions and pictures.
 */
export const ANSWER_BYTES_MAX = 32 * 1024 * 1024;

/**
 * The common form between adapters and the gateway: a chat completion or chunk, unchecked, with unknown fields.
 * Undefined usage is unknown, not zero.
 */
export interface ChatReply {
  readonly completion: JsonFields;
  readonly usage: Usage | undefined;
  /** The prompt is counted, the completion not at all or in part. */
  readonly isUsageEarly?: boolean;
  /** Services that the answer used and that cost more than the usual one. */
  readonly services?: readonly string[];
}

/** The member of a JSON answer that has its usage. */
export interface UsageMember {
  readonly name: string;
  /** Undefined if the usage is missing, invalid, or not that of the whole answer. */
  read(value: unknown): Usage | undefined;
}

/** The usage of a JSON answer that is too expensive to parse as a whole. */
export function usageOfUnread(text: string, member: UsageMember): Usage | undefined {
  const value = memberText(text, member.name);
  try {
    return value === undefined ? undefined : member.read(parseUntrusted(value, ANSWER_COST_FACTOR));
  } catch {
    return undefined;
  }
}

/** One event of a chat stream. `done` is the interface's terminator; so is a chunk that `isLast`. */
export type ChatEvent =
  | {
      readonly kind: "chunk";
      readonly chunk: JsonFields;
      readonly usage: Usage | undefined;
      readonly isLast?: boolean;
      /** The prompt is counted, the completion not at all or in part. */
      readonly isUsageEarly?: boolean;
      /** Base64 characters of encrypted reasoning; if undefined, those in the chunk count. */
      readonly encryptedLength?: number;
      /** Services that the answer used and that cost more than the usual one, as far as the provider names them. */
      readonly services?: readonly string[];
      readonly counts?: OtherCounts;
    }
  | {
      readonly kind: "done";
      /** Only complete answers have this terminator, even those without a finish reason. */
      readonly isWhole?: boolean;
    }
  | {
      readonly kind: "nothing";
      readonly encryptedLength?: number;
      /** A tool of the provider has returned its result. */
      readonly ranTool?: boolean;
      /** What the provider's tools have used so far. */
      readonly counts?: OtherCounts;
    };

/** Reads the events of one stream in order. Throws AnswerError for an event that the interface does not define. */
export type ReadChatEvent = (event: { event: string | undefined; data: string }) => ChatEvent;

/** The answer of a provider is invalid, or reports an error. */
export class AnswerError extends Error {
  override readonly name: string = "AnswerError";
  readonly fault: UpstreamFault = "provider";
  readonly outcome: UpstreamOutcome = "invalid answer";
}

/**
 * The model failed at this one request, and the provider is healthy. The next route may answer. It must not count for
 * the health of the route, because a client can cause it at will.
 */
export class IsolatedFailureError extends AnswerError {
  override readonly name = "IsolatedFailureError";
  override readonly fault = "isolated";
  override readonly outcome = "isolated failure";
}

/**
 * The answer exceeds a limit of the gateway because of what the caller asked for. Every other route would send the
 * same.
 */
export class ExcessiveAnswerError extends AnswerError {
  override readonly name = "ExcessiveAnswerError";
  override readonly fault = "excessive";
  override readonly outcome = "isolated failure";
}

const utf8 = new TextDecoder("utf-8", { fatal: true });

/** The text of a JSON answer. Throws AnswerError for bytes that are not UTF-8. */
export function decodeAnswer(answer: Uint8Array): string {
  try {
    return utf8.decode(answer);
  } catch (cause) {
    throw new AnswerError("the answer is not UTF-8", { cause });
  }
}

/** More levels than any schema or answer needs. */
export const DEPTH_MAX = 1000;

/**
 * Parses the JSON of an answer or an event with `parse`. Throws AnswerError for invalid JSON, and
 * ExcessiveAnswerError for JSON that takes too long to parse, which a client can cause.
 */
export function parseAnswerJson(
  text: string,
  parse: (text: string) => unknown = (answer) => parseUntrusted(answer, ANSWER_COST_FACTOR),
): unknown {
  try {
    return parse(text);
  } catch (error) {
    if (error instanceof CostlyJsonError)
      throw new ExcessiveAnswerError(`the answer ${error.message}`);
    // No cause: the parser's error quotes the answer, which must not get into a log.
    throw new AnswerError("the answer is not JSON");
  }
}

/**
 * The JSON text of a part of an answer. Throws ExcessiveAnswerError if it is nested too deep: the caller can make a
 * model write such arguments.
 */
export function answerText(value: unknown): string {
  if (isDeeperThan(value, DEPTH_MAX))
    throw new ExcessiveAnswerError("the answer is nested too deep");
  return JSON.stringify(value);
}

/** More choices than a request can ask for. State is kept for each choice of a stream. */
const CHOICES_MAX = 1024;
const TOO_MANY_CHOICES = "the answer has too many choices";

/**
 * The choices of an answer or an event; none if the field is absent. Throws AnswerError, and ExcessiveAnswerError for
 * too many.
 */
export function choiceList(choices: unknown): readonly unknown[] {
  const list = choices ?? [];
  if (!Array.isArray(list)) throw new AnswerError("the choices are not a list");
  if (list.length > CHOICES_MAX) throw new ExcessiveAnswerError(TOO_MANY_CHOICES);
  return list;
}

/**
 * The index of a choice; `position` if it has none. Throws AnswerError for an index that is too large: a single wrong
 * number is the provider's fault, and another route may answer.
 */
export function choiceIndex(index: unknown, position: number): number {
  if (typeof index !== "number" || !Number.isInteger(index) || index < 0) return position;
  if (index >= CHOICES_MAX) throw new AnswerError(TOO_MANY_CHOICES);
  return index;
}

/** A call or an image in a message. Only stream chunks have an index. */
export function withoutIndex<Item extends { readonly index: number }>(
  item: Item,
): Omit<Item, "index"> {
  const { index: _, ...others } = item;
  return others;
}

/**
 * The interface cannot express the request; another route may. The message is for the caller: it names the field and
 * quotes nothing.
 */
export class UnsupportedRequestError extends Error {
  override readonly name = "UnsupportedRequestError";
}

/** A type name that may be repeated to the caller. */
const PLAIN_TYPE = /^[A-Za-z0-9_.-]{1,64}$/;

/** For a part, a tool or a field without a counterpart in an interface. `path` names it to the caller. */
export function unsupported(path: string, type?: unknown): UnsupportedRequestError {
  const named = typeof type === "string" && PLAIN_TYPE.test(type) ? ` of the type ${type}` : "";
  return new UnsupportedRequestError(`${path}${named} is not supported by this model's provider`);
}

/** One interface that serves chats. Pure: text in, text out, no I/O. */
export interface ChatInterface {
  /** Throws UnsupportedRequestError. */
  encode(call: ChatCall): EncodedRequest;
  /** Throws AnswerError. */
  read(text: string): ChatReply;
  readonly usage: UsageMember;
  events(): ReadChatEvent;
  /** An event means the same whatever came before it. */
  readonly eventsStandAlone: boolean;
  /** `encode` never throws. */
  readonly supportsEverything: boolean;
  readonly takes: TakenConversation;
  /** Whether the provider ends an answer at the sequence. `encode` sends no other. */
  takesStop(sequence: string): boolean;
}

/** What an interface takes of a conversation. `dialect/dialect.ts` reads it. */
export interface TakenConversation {
  /** Many different servers have the interface: a request that the gateway writes must be one that each of them takes. */
  readonly hasManyServers: boolean;
  /** A result of a tool may have pictures. */
  readonly picturesInResults: boolean;
  readonly toolNames: NameRule;
}

/** What a provider takes as the name of a function. */
export interface NameRule {
  readonly charactersMax: number;
  /** A character that may not be in a name. With the flag `g`. */
  readonly foreign: RegExp;
  readonly start: RegExp;
}

/** https://platform.openai.com/docs/api-reference/chat/create#chat-create-tools; compatible servers have the same rule. */
export const OPENAI_NAMES: NameRule = {
  charactersMax: 64,
  foreign: /[^A-Za-z0-9_-]/gu,
  start: /^/,
};

export interface EmbeddingsCall {
  readonly request: EmbeddingsRequest;
  /** The client's own text with the positions of its members. */
  readonly object: JsonObjectText;
  /** The provider's name for the model. */
  readonly model: string;
}

/** An embeddings answer that was read. Undefined usage is unknown, not zero. */
export interface EmbeddingsReply {
  readonly usage: Usage | undefined;
  /** A vector for each input, as numbers or in base64. Undefined: the provider's own bytes are the answer. */
  readonly vectors: readonly (string | number[])[] | undefined;
}

/** One interface that serves embeddings. Pure: no I/O. */
export interface EmbeddingsInterface {
  /** Throws UnsupportedRequestError if the interface cannot express the request. */
  refuseUnsupported(request: EmbeddingsFigures): void;
  /** Throws UnsupportedRequestError. */
  encode(call: EmbeddingsCall): EncodedRequest;
  /** Throws AnswerError. */
  read(answer: Uint8Array, request: EmbeddingsFigures): EmbeddingsReply;
  readonly usage: UsageMember;
}

export interface ProviderAdapter {
  /** Headers of this kind of provider, with the credential. */
  headers(apiKey: string | undefined): Readonly<Record<string, string>>;
  readonly chat: ChatInterface;
  /** The interface of POST /v1/responses, which is passed through; undefined for kinds without it. */
  readonly responses: NativeInterface | undefined;
  /** The interface of POST /v1/messages, which is passed through; undefined for kinds without it. */
  readonly messages: MessagesInterface | undefined;
  /** Undefined for kinds without embeddings. */
  readonly embeddings: EmbeddingsInterface | undefined;
}

/** An interface that the gateway has too: the provider gets the client's own text, and the client the provider's bytes. */
export interface NativeInterface {
  encode(call: NativeCall): EncodedRequest;
  readonly usage: UsageMember;
}

export interface MessagesInterface extends NativeInterface {
  /** Asks how many tokens a prompt has. The answer is `{ input_tokens }`. */
  encodeCount(call: NativeCall): EncodedRequest;
}

/** The client's request for one route. */
export interface NativeCall {
  readonly object: JsonObjectText;
  /** The provider's name for the model. */
  readonly model: string;
  /** Headers of the client that the interface defines. */
  readonly headers: Readonly<Record<string, string>>;
  /** Replaces the client's bound in tokens; undefined leaves it. */
  readonly outputTokensBound?: number | undefined;
  /** Replaces the client's maximum of calls of the provider's tools; undefined leaves it. */
  readonly toolCallsMax?: number | undefined;
  /** Top-level fields that the provider refuses. */
  readonly dropFields: readonly string[];
}
