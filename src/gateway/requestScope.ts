import type { Caller } from "../auth/knownKeys.ts";
import type { BoundedPrompt, PromptExtent, TokenLimits } from "../billing/cost.ts";
import type { AskedTier } from "../contract/serviceTier.ts";
import type { Meter } from "../billing/meter.ts";
import type { Endpoint } from "../contract/account/requestStatus.ts";
import { assert } from "../lib/assert.ts";
import type { RateLimitPermit } from "../limits/keyRates.ts";
import type { Candidate } from "../routing/candidates.ts";
import type { LogFields } from "../telemetry/log.ts";
import type { RequestSpan } from "../telemetry/tracing.ts";
import type { ModelChain } from "./catalog.ts";
import type { ConfigSnapshot, Gateway } from "./gateway.ts";

/**
 * A request that passed authentication and rate limits, until its answer ends. It grows by two stages: `checked`, then
 * `admitted`. It lives as long as a stream, so it never has the body (memory rules: docs/contribute/architecture.md).
 */
export interface RequestScope {
  readonly gateway: Gateway;
  readonly requestId: string;
  /** The config that was in force when the request arrived. */
  readonly snapshot: ConfigSnapshot;
  readonly caller: Caller;
  /** When the request arrived, in milliseconds since 1970. Its prices are those of this moment. */
  readonly arrivedMs: number;
  readonly permit: RateLimitPermit;
  /** Aborted when the client disconnects. */
  readonly signal: AbortSignal;
  /** Undefined if no traces are sent. */
  readonly span: RequestSpan | undefined;
  checked: Checked | undefined;
  admitted: Admitted | undefined;
  /** The value of a header of the request; null without it. */
  header(name: string): string | null;
  /** Adds fields to the request's log line. */
  addLogFields(fields: LogFields): void;
  /** Adds the cause of a failure after the answer began to the log line. */
  logFailure(error: unknown): void;
  /** Called when a streamed answer has ended. A JSON answer ends when it is returned. */
  onStreamEnd(): void;
}

/** What the check of the body found: the figures of the request and its routes. */
export interface Checked {
  readonly endpoint: Endpoint;
  readonly stream: boolean;
  /** The service tier that the request asks for. Undefined: the standard one. "auto": what the provider's project says. */
  readonly serviceTier: AskedTier;
  readonly models: ModelChain;
  /** The routes that may serve it. Those of a fallback model come behind those of the model that the request asks for. */
  readonly candidates: readonly Candidate[];
  /** A hash of the session, for the choice among equal candidates. Undefined: it is at random. */
  readonly session: bigint | undefined;
  readonly prompt: PromptExtent | BoundedPrompt;
  /** Estimated prompt tokens, for the token rate. */
  readonly promptEstimate: number;
  /** The fewest tokens that the prompt can have. 0 where a longer prompt is cut by the provider. */
  readonly promptTokensMin: number;
  /** The most tokens that files and pictures of the prompt can have beyond that. */
  readonly attachmentTokens: number;
  /** The caller's bound of tokens for one choice. */
  readonly outputTokensBound: number | undefined;
  readonly choiceCount: number;
}

/** What the money pays for. The meter must be settled, however the request ends. */
export interface Admitted {
  readonly meter: Meter;
  readonly tokenLimits: TokenLimits;
  /** The tokens of each choice that the hold pays for. */
  readonly paidTokens: number;
  /** The paid tokens are fewer than the request asks for. */
  readonly isShrunk: boolean;
  /** The most tokens that the models can generate for all choices together. */
  readonly modelTokensMax: number;
}

export type CheckedScope = RequestScope & { readonly checked: Checked };
export type AdmittedScope = CheckedScope & { readonly admitted: Admitted };

/** Each stage is entered once. */
export function withChecked(scope: RequestScope, checked: Checked): CheckedScope {
  assert(scope.checked === undefined, "a request is checked twice");
  scope.checked = checked;
  return scope as CheckedScope;
}

export function withAdmitted(scope: CheckedScope, admitted: Admitted): AdmittedScope {
  assert(scope.admitted === undefined, "a request is admitted twice");
  (scope as RequestScope).admitted = admitted;
  return scope as AdmittedScope;
}
