import type { AnswerContent } from "./answerContent.ts";

/** A provider of the config. All of its answers take the same path through the gateway. */
export interface Route {
  readonly kind: "openai" | "anthropic" | "gemini";
  /** The interface for chats. */
  readonly api: "chat" | "responses";
  /** Its time-outs are short: its answers may also never end. */
  readonly hasShortTimeouts: boolean;
  /** The next route is a provider that always answers. */
  readonly hasBackup: boolean;
}

/** What a client must receive, as far as it is certain. With a backup the next route answers instead of a failure. */
export type Expected =
  | { readonly kind: "whole"; readonly hasUsage: boolean }
  | { readonly kind: "failure" }
  /** A failure that the provider itself reports, which is forwarded. */
  | { readonly kind: "failed" }
  | { readonly kind: "refusal"; readonly status: 400 | 404; readonly text: string }
  | { readonly kind: "anything" };

/** A provider's answer to one request. */
export interface PlannedAnswer {
  readonly delivery: Delivery;
  /** The body within its frame; undefined if it is unclear. */
  readonly body: Buffer | undefined;
  readonly expected: Expected;
  /** The provider may be put aside by it for longer than a run takes. */
  readonly isLast: boolean;
}

export interface Delivery {
  readonly bytes: Buffer;
  /** Where the bytes are cut into writes. */
  readonly cuts: readonly number[];
  /** How long each write lets wait for the next, in milliseconds. */
  readonly pauseMs: number;
  /** How the connection is left: open, closed in good order, or reset. */
  readonly end: "keep" | "fin" | "reset";
}

/** What is asked, and what the answer is before anything is done to it. */
export interface Question {
  /** It stands in the prompt, so that the provider knows what to do. */
  readonly number: number;
  /** As clients know it. */
  readonly model: string;
  readonly route: Route;
  readonly endpoint: "chat" | "responses";
  readonly stream: boolean;
  readonly showsUsage: boolean;
  readonly said: AnswerContent;
}

export interface AnswerCase extends Question, PlannedAnswer {}

/** Sent after the end of an answer; it must never become part of any. */
export const poison = "POISON";
