import { type Usage, noUsage } from "../../../src/contract/usage.ts";
import type { Service } from "../../../src/gateway/interfaces.ts";
import type { Asked, ExpectedCall } from "../../providers/conformance/dialect.ts";
import type { RequestCase } from "../../providers/conformance/requests.ts";

/**
 * A client of one interface in front of the gateway: how it writes a request, and how it reads an answer. It reads as
 * strictly as the official client does.
 */
export interface Speaker {
  readonly endpoint: "chat" | "responses" | "messages";
  readonly path: string;
  /** The body of a request, without its model. Undefined if the interface cannot express it. */
  body(request: RequestCase): Readonly<Record<string, unknown>> | undefined;
  /** What a provider is asked if the interface says it: what is always in its requests, and what gets lost on the way. */
  restated(asks: Asked, service: Service): Asked;
  /** Reads an answer in JSON. Throws if a client could not. */
  read(text: string): ClientAnswer;
  /** Reads a stream. Throws if its events are not in the order that clients rely on. */
  readStream(text: string): ClientStream;
  /** The body of an error in the interface's form. */
  error(error: ClientError, requestId: string): object;
}

/** An answer as a client understands it. */
export interface ClientAnswer {
  readonly text: string;
  readonly reasoning: string | undefined;
  /** The arguments are parsed. */
  readonly toolCalls: readonly object[];
  readonly finish: string;
  /** The usage that the client is shown; undefined if there is none. */
  readonly usage: Usage | undefined;
}

/** A stream as a client understands it: a whole answer, or the type and the message of the failure that ended it. */
export type ClientStream =
  | { readonly ended: "whole"; readonly answer: ClientAnswer }
  | { readonly ended: "failed"; readonly type: string; readonly message: string };

/** An error of the gateway, in its own words. */
export interface ClientError {
  readonly status: 400 | 404 | 502;
  readonly message: string;
  readonly retryAfter?: number;
  /** Of the provider. */
  readonly code?: string;
}

/** A call by what its arguments mean: their text may come with other blanks. Throws if they are not JSON. */
export function understood({ id, name, arguments: given }: ExpectedCall): object {
  return { id, name, arguments: given.trim() === "" ? {} : (JSON.parse(given) as unknown) };
}

/** An error in OpenAI's form. */
export function openaiError({ status, message, code }: ClientError): object {
  const type = status === 502 ? "provider_error" : "invalid_request_error";
  return { error: { message, type, ...(code !== undefined && { code }) } };
}

/** Throws with this problem unless the condition holds. A test prints it with the whole stream. */
export function check(isRight: boolean, problem: string): asserts isRight {
  if (!isRight) throw new Error(problem);
}

/** The fields of an object; none of another value. */
export function membersOf(value: unknown): Readonly<Record<string, unknown>> {
  return typeof value === "object" && value !== null && !Array.isArray(value)
    ? (value as Record<string, unknown>)
    : {};
}

export function textOf(value: unknown): string {
  if (typeof value !== "string") throw new Error(`not a text: ${JSON.stringify(value)}`);
  return value;
}

export function countOf(value: unknown): number {
  if (typeof value !== "number") throw new Error(`not a number: ${JSON.stringify(value)}`);
  return value;
}

export function listOf(value: unknown): readonly unknown[] {
  if (!Array.isArray(value)) throw new Error(`not a list: ${JSON.stringify(value)}`);
  return value;
}

/** A usage in OpenAI's form, whose figures the two interfaces call `prompt` and `completion`, or `input` and `output`. */
export function openaiUsage(value: unknown, given: string, made: string): Usage | undefined {
  if (value === undefined || value === null) return undefined;
  const usage = membersOf(value);
  const prompt = countOf(usage[`${given}_tokens`]);
  const completion = countOf(usage[`${made}_tokens`]);
  check(usage["total_tokens"] === prompt + completion, "the total is not the sum");
  const details = membersOf(usage[`${given}_tokens_details`]);
  return {
    ...noUsage,
    promptTokens: prompt,
    cachedTokens: countOf(details["cached_tokens"] ?? 0),
    cacheWriteTokens: countOf(details["cache_write_tokens"] ?? 0),
    cacheWrite1hTokens: countOf(details["cache_write_1h_tokens"] ?? 0),
    completionTokens: completion,
    webSearches: countOf(usage["web_searches"] ?? 0),
  };
}
