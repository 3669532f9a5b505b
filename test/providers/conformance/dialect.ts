import type { ChatInterface, EncodedRequest } from "../../../src/providers/provider.ts";

/**
 * One way to have a chat answered, with what the suite needs to know of it: how a provider of this kind says
 * something, and what it is asked. Everything else in the suite is the same for all.
 */
export interface Dialect {
  readonly name: string;
  readonly chat: ChatInterface;
  /** Says this as a whole answer. */
  json(answer: ExpectedAnswer): string;
  /** Says this as an event stream, from its first byte to its terminator, texts in several deltas. */
  stream(answer: ExpectedAnswer): string;
  /** What a request asks, read back from the provider's own form. */
  asked(request: EncodedRequest): Asked;
  /** Says that it failed: the body of an answer with this status, and an event inside a stream. */
  error(status: number, message: string): { readonly json: string; readonly event: string };
  /** Answers that are errors or nonsense, beside those that are it in every interface. */
  readonly failures: readonly Failure[];
  /** Whole streams as the provider's documentation shows them, and what they say. */
  readonly transcripts: readonly Transcript[];
  /** Fields of `Asked` that the interface has no counterpart for: they are left out. */
  readonly leavesOut: readonly (keyof Asked)[];
  /** By the name of a case: of a request, the message of its UnsupportedRequestError; of an answer, why it cannot be given. */
  readonly cannot: Readonly<Record<string, string>>;
  /** The interface must have a bound: without one of the caller's it gets the most that is held. */
  readonly boundAlways: boolean;
  /** Its usage tells the tokens that were written to a cache from the others of the prompt. */
  readonly reportsCacheWrites: boolean;
}

/** For `cannot`: only one interface counts these apart. */
export const noAnthropicCounts = {
  "cache writes for an hour, and searches": "the interface has no such counts",
};

/** What a provider says in one answer, whatever its interface calls it. */
export interface ExpectedAnswer {
  readonly reasoning?: string;
  readonly text?: string;
  readonly toolCalls?: readonly ExpectedCall[];
  readonly finish: "stop" | "length" | "content_filter" | "tool_calls";
  readonly usage?: ExpectedUsage;
}

/** `arguments` is the text of a JSON object. */
export interface ExpectedCall {
  readonly id: string;
  readonly name: string;
  readonly arguments: string;
}

/** Cached and written tokens are part of the prompt's, reasoning tokens of the completion's. */
export interface ExpectedUsage {
  readonly prompt: number;
  readonly cached: number;
  readonly cacheWrite: number;
  readonly completion: number;
  readonly reasoning: number;
  /** The part of the written tokens that is kept for an hour. */
  readonly cacheWrite1h?: number;
  readonly webSearches?: number;
}

/** The meaning of a request. Fields that it does not set are absent. */
export interface Asked {
  readonly model?: string;
  readonly stream?: boolean;
  /** The texts of the instructions, in their order. */
  readonly system?: readonly string[];
  /** The utterances in order, whatever messages they are in. */
  readonly conversation?: readonly AnswerContent[];
  readonly bound?: number;
  readonly temperature?: number;
  readonly topP?: number;
  readonly stop?: readonly string[];
  readonly effort?: string;
  readonly tools?: readonly AskedTool[];
  readonly toolChoice?: "auto" | "none" | "required" | { readonly name: string };
  readonly parallelToolCalls?: boolean;
  /** The form of the answer: any JSON, or a schema. */
  readonly format?: "json" | { readonly schema: unknown };
  /** Who the caller says its user is. */
  readonly user?: string;
}

export type AnswerContent =
  | { readonly by: "user" | "assistant"; readonly text: string }
  | { readonly by: "user"; readonly image: AskedImage }
  | { readonly by: "assistant"; readonly call: AskedCall }
  | { readonly by: "tool"; readonly answers: string; readonly text: string };

export type AskedImage =
  | { readonly mediaType: string; readonly base64: string }
  | { readonly url: string };

/** The image of a URL, which may hold all of it. */
export function imageOfUrl(url: string): AskedImage {
  const [, mediaType, base64] = /^data:(.*);base64,(.*)$/.exec(url) ?? [];
  return mediaType !== undefined && base64 !== undefined ? { mediaType, base64 } : { url };
}

/** `arguments` is the parsed object. */
export interface AskedCall {
  readonly id: string;
  readonly name: string;
  readonly arguments: unknown;
}

export interface AskedTool {
  readonly name: string;
  readonly description?: string;
  readonly parameters?: unknown;
}

/** A tool as it was meant: without parameters some interfaces need an empty schema. */
export function askedTool({ name, description, parameters }: AskedTool): AskedTool {
  const isEmpty = JSON.stringify(parameters) === '{"type":"object","properties":{}}';
  return {
    name,
    ...(description !== undefined && { description }),
    ...(parameters !== undefined && !isEmpty && { parameters }),
  };
}

export interface Failure {
  readonly name: string;
  readonly json?: string;
  readonly stream?: string;
}

export interface Transcript {
  readonly name: string;
  readonly text: string;
  readonly answer: ExpectedAnswer;
}

/** The pieces of a text in a stream, cut after each blank. */
export function inPieces(text: string): readonly string[] {
  return text.match(/[^ ]* ?/gu)?.filter((piece) => piece !== "") ?? [];
}
