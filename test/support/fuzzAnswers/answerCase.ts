import type { AnswerContent } from "./answerContent.ts";

/** A provider as the config has it; all of its answers go one way through the gateway. */
export interface Route {
  readonly kind: "openai" | "anthropic" | "gemini";
  /** How it serves chats. */
  readonly api: "chat" | "responses";
  /** Its time-outs are short: its answers may also never end. */
  readonly hasShortTimeouts: boolean;
  /** Behind it stands a provider that always answers. */
  readonly hasBackup: boolean;
}

/** What a client must see, as far as that is sure. Where a route is backed, the next one answers instead of a failure. */
export type Expected =
  | { readonly kind: "whole"; readonly hasUsage: boolean }
  | { readonly kind: "failure" }
  /** The provider's own word that it failed, which is passed on. */
  | { readonly kind: "failed" }
  | { readonly kind: "refusal"; readonly status: 400 | 404; readonly text: string }
  | { readonly kind: "anything" };

/** What a provider does with one request. */
export interface PlannedAnswer {
  readonly delivery: Delivery;
  /** The body within its frame; undefined where nobody can say what that is. */
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

/** What stands behind the end of an answer, and may never become part of any. */
export const poison = "POISON";
