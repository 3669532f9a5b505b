import type { ProviderConfig } from "../config/schema.ts";
import type { FinalStatus } from "../contract/account/requestStatus.ts";
import type { Usage } from "../contract/usage.ts";

// Only types: whatever makes spans is in otlp.ts, which is loaded only if `[telemetry]` is configured.

/** Records requests as spans and sends them to a collector. No method throws, and none makes a request wait. */
export interface Tracing {
  startRequest(request: TracedRequest): RequestSpan;
  /** Sends the spans that wait. Resolves within a few seconds, also if the collector is down. */
  close(): Promise<void>;
}

/** A request that arrived. `path` has no query: a query may contain a key. */
export interface TracedRequest {
  readonly requestId: string;
  readonly endpoint: string;
  readonly method: string;
  readonly path: string;
  readonly isSecure: boolean;
  /** The client's headers of https://www.w3.org/TR/trace-context/ */
  readonly traceparent: string | null;
  readonly tracestate: string | null;
}

/** One attempt at a provider. `model` is the provider's name for the model. */
export interface TracedAttempt {
  readonly provider: ProviderConfig;
  readonly model: string;
  readonly stream: boolean;
}

/** How an attempt ended: the part of its attempt record that its span has. */
export interface TracedOutcome {
  readonly outcome: string;
  readonly status: number | null;
}

/** A settled request: the part of its receipt that its spans have. */
export interface TracedReceipt {
  readonly status: FinalStatus;
  readonly usage: Usage;
  readonly estimated: boolean;
  readonly chargeRub: string;
  /** From the start of the attempt that answered to its first content. Streams only. */
  readonly firstContentMs: number | undefined;
}

/**
 * The span of one request, with a child for each attempt. It lives as long as a stream. It never has a text of a prompt or
 * an answer, a key, or the name of an account.
 */
export interface RequestSpan {
  /** Starts the span of an attempt. Returns the headers that make the provider continue the trace. */
  startAttempt(attempt: TracedAttempt): Readonly<Record<string, string>>;
  /** The last attempt ended. */
  endAttempt(outcome: TracedOutcome): void;
  /** The last attempt answered. `model` is what the provider calls the model that answered. What is no text is left out. */
  answered(model: unknown, finishReasons: readonly unknown[]): void;
  /** The request was settled. `model` is the id from the config. */
  settled(receipt: TracedReceipt, model: string): void;
  /** The answer ended with this HTTP status. Only the first call counts. */
  end(status: number): void;
}
