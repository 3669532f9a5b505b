import type { ProviderConfig } from "../config/schema.ts";
import type { ChatRequest } from "../contract/chat/chatRequest.ts";
import type { Usage } from "../contract/usage.ts";
import { isDeeperThan, type JsonFields, type JsonObjectText, memberText } from "../lib/json.ts";
import { ANSWER_COST_FACTOR, CostlyJsonError, parseUntrusted } from "../lib/untrustedJson.ts";
import type { UpstreamFault, UpstreamOutcome } from "./upstreamError.ts";

/** A chat request on its way to one route. */
export interface ChatCall {
  readonly request: ChatRequest;
  /** The client's own text, where its members stand. */
  readonly object: JsonObjectText;
  /** The provider's name for the model. */
  readonly model: string;
  /** The bound of each choice's tokens to send; undefined sends none, where the interface allows that. */
  readonly outputTokensBound: number | undefined;
  /** What was held for each choice: the bound for interfaces that must have one. */
  readonly outputTokensMax: number;
  readonly options: ChatOptions;
}

/** What the config says of how a provider of the kind openai takes a chat. */
export type ChatOptions = Pick<
  ProviderConfig,
  "maxTokensField" | "streamUsage" | "dropMessageFields"
>;

/** What is posted: `path` is appended to the provider's base URL. */
export interface EncodedRequest {
  readonly path: string;
  /** Text, or its UTF-8 in pieces. */
  readonly body: string | readonly Uint8Array[];
}

/**
 * The common language between adapters and the gateway: the public contract's own chat completion
 * (or chunk), unknown fields kept, not yet checked. Unknown usage is undefined, which is not zero.
 */
export interface ChatReply {
  readonly completion: JsonFields;
  readonly usage: Usage | undefined;
  /** The prompt is counted, the completion not yet, or in part. */
  readonly isUsageEarly?: boolean;
}

/** Where an answer in JSON has its usage, and how what stands there is read. */
export interface UsageMember {
  readonly name: string;
  /** Undefined where it is missing, no count, or not that of the whole answer. */
  read(value: unknown): Usage | undefined;
}

/** The usage of an answer in JSON that is itself too costly to be read. */
export function usageOfUnread(text: string, member: UsageMember): Usage | undefined {
  const value = memberText(text, member.name);
  try {
    return value === undefined ? undefined : member.read(parseUntrusted(value, ANSWER_COST_FACTOR));
  } catch {
    return undefined;
  }
}

/** One event of a chat stream; `done` is the interface's own terminator, and so is a chunk that `isLast`. */
export type ChatEvent =
  | {
      readonly kind: "chunk";
      readonly chunk: JsonFields;
      readonly usage: Usage | undefined;
      readonly isLast?: boolean;
      /** The usage of an answer that has only begun: its prompt is counted, its completion so far at most. */
      readonly isUsageEarly?: boolean;
      /** Characters of base64 in which a thought came encrypted; unless given, those that the chunk itself has. */
      readonly sealed?: number;
    }
  | {
      readonly kind: "done";
      /** It stands behind whole answers only, also behind those that never said why they ended. */
      readonly isWhole?: boolean;
    }
  | {
      readonly kind: "nothing";
      readonly sealed?: number;
      /** A tool that the provider runs has brought in what it found. */
      readonly ranTool?: boolean;
    };

/** Reads the events of one stream in their order. Throws AnswerError for what the interface does not promise. */
export type ReadChatEvent = (event: { event: string | undefined; data: string }) => ChatEvent;

/** The answer of a provider is not what its interface promises: an error where an answer belongs, or nonsense. */
export class AnswerError extends Error {
  override readonly name: string = "AnswerError";
  /** Whose fault that is, and what an attempt came to by it. */
  readonly fault: UpstreamFault = "provider";
  readonly outcome: UpstreamOutcome = "invalid answer";
}

/**
 * The provider is well, but its model came to nothing with this one request, or to nothing of use. Another route may
 * do better; what a client can bring about whenever it likes must not count against a provider that all share.
 */
export class IsolatedFailureError extends AnswerError {
  override readonly name = "IsolatedFailureError";
  override readonly fault = "isolated";
  override readonly outcome = "isolated failure";
}

/**
 * An answer is more than can be read or written, by what its caller asked for: each other route would do the whole
 * work once more for the same.
 */
export class ExcessiveAnswerError extends AnswerError {
  override readonly name = "ExcessiveAnswerError";
  override readonly fault = "excessive";
  override readonly outcome = "isolated failure";
}

/** Far more levels than any schema of a request or any answer needs, and few enough to be written at once. */
export const DEPTH_MAX = 1000;

/**
 * The value of an answer's JSON, or of an event's; `parse` reads its text. Throws AnswerError for what is no JSON, and
 * ExcessiveAnswerError for what would take too long to read: a client can bring that about.
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
    // The parser's error quotes the answer, which must not reach a log: so it is no cause here.
    throw new AnswerError("the answer is not JSON");
  }
}

/**
 * The JSON text of an answer, or of a part of one. Throws ExcessiveAnswerError where it is nested too deep to be written: how
 * deep the arguments of a call are is the model's choice, and so the caller's.
 */
export function answerText(value: unknown): string {
  if (isDeeperThan(value, DEPTH_MAX))
    throw new ExcessiveAnswerError("the answer is nested too deep");
  return JSON.stringify(value);
}

/** Far more choices than anybody can ask for: what is known of each is kept to the end of a stream. */
const CHOICES_MAX = 1024;
const TOO_MANY_CHOICES = "the answer has too many choices";

/**
 * The choices of an answer, or of an event of one: none where the field is absent. Throws AnswerError, and
 * ExcessiveAnswerError for too many.
 */
export function choiceList(choices: unknown): readonly unknown[] {
  const list = choices ?? [];
  if (!Array.isArray(list)) throw new AnswerError("the choices are not a list");
  if (list.length > CHOICES_MAX) throw new ExcessiveAnswerError(TOO_MANY_CHOICES);
  return list;
}

/**
 * Which of the answer's choices it is: by its `index`, or where that is none by its place in the list. Throws AnswerError
 * for an index that is too large: one wrong number is a provider's fault, and another route can do better.
 */
export function choiceIndex(index: unknown, place: number): number {
  if (typeof index !== "number" || !Number.isInteger(index) || index < 0) return place;
  if (index >= CHOICES_MAX) throw new AnswerError(TOO_MANY_CHOICES);
  return index;
}

/**
 * The interface cannot say what a request asks for: another route may. The message is for the caller; it
 * names the field and quotes nothing.
 */
export class UnsupportedRequestError extends Error {
  override readonly name = "UnsupportedRequestError";
}

/** One way to have a chat answered. Pure: it turns text into text and does no I/O. */
export interface ChatInterface {
  /** Throws UnsupportedRequestError. */
  encode(call: ChatCall): EncodedRequest;
  /** Throws AnswerError. */
  read(text: string): ChatReply;
  readonly usage: UsageMember;
  /** Starts reading one stream. */
  events(): ReadChatEvent;
  /** Each event of a stream is read alike, whatever came before it. */
  readonly eventsStandAlone: boolean;
  /** There are words for whatever a chat asks for: `encode` throws nothing. */
  readonly supportsEverything: boolean;
  /** The interface has stop sequences. Where it has none, the gateway ends the answer itself. */
  readonly supportsStop: boolean;
}

/** How one kind of provider is spoken to. */
export interface ProviderAdapter {
  /** Headers of the kind's own, the credential among them. */
  headers(apiKey: string | undefined): Readonly<Record<string, string>>;
  readonly chat: ChatInterface;
  /** The native responses interface, which is passed through; undefined for kinds without it. */
  readonly responses:
    | { encode(object: JsonObjectText, model: string): EncodedRequest; readonly usage: UsageMember }
    | undefined;
}
