import type { ErrorExtra } from "../contract/errors.ts";
import type { ConnectionErrorCode } from "./http/connectionError.ts";

/**
 * Whose fault a failed attempt is, and so what follows:
 * - `caller`: the request itself; no other provider is tried
 * - `excess`: the caller's choice of what no answer to it can be read for; no other provider is tried
 * - `unfit`: nobody's; the route's interface cannot say what is asked for, and nothing was sent
 * - `misfire`: nobody's; the provider is well, and its model failed at this one request
 * - `missing`: 404; the call decides
 * - `account`: the operator's own account is refused or empty
 * - `limited`: the provider's rate limit
 * - `client`: it went away, and the attempt was given up for that
 * - `gateway`: our own; it ends, or cannot keep its books
 * - `provider`: everything else
 */
export type UpstreamFault =
  | "caller"
  | "excess"
  | "unfit"
  | "misfire"
  | "missing"
  | "account"
  | "limited"
  | "client"
  | "gateway"
  | "provider";

/**
 * What an attempt came to, as a short word for its record, the log and the metrics: a status that is not 200, what
 * happened to its connection, or what was wrong with its answer. Each is a label of a metric, and those must be few: so it
 * is one of these words, never a provider's own, and telemetry/attemptOutcome.ts folds the statuses.
 */
export type UpstreamOutcome =
  | `status ${number}`
  | ConnectionErrorCode
  | "answer"
  | "client gone"
  | "compressed"
  | "content type"
  | "cut"
  | "empty answer"
  | "internal"
  | "misfire"
  | "reported failure"
  | "runaway"
  | "shutdown"
  | "store"
  | "surplus"
  | "too large"
  | "unfit";

/** What is wrong with an account of the operator's that is refused, where the provider says so. */
export type AccountFault = "key" | "empty" | "country";

/** The providers' codes for a model that they do not have; Azure calls one a deployment. */
const UNKNOWN_MODEL = /model|^DeploymentNotFound$/i;

/** An attempt at a provider failed before its answer began, or in the midst of it. */
export class UpstreamError extends Error {
  override readonly name = "UpstreamError";
  readonly fault: UpstreamFault;
  readonly outcome: UpstreamOutcome;
  /** The provider's HTTP status, if it gave one. */
  readonly status: number | undefined;
  /** How long the provider asks to be left alone. */
  readonly retryAfterMs: number | undefined;
  /** What a client may be told, scrubbed; only with the faults `caller` and `unfit`. */
  readonly shown: { message: string; extra: ErrorExtra } | undefined;
  /** The provider's own code for the error, such as `model_not_found`. */
  readonly providerCode: string | undefined;
  /** Only with the fault `account`. */
  readonly accountFault: AccountFault | undefined;
  /**
   * The words of the provider's refusal, scrubbed, for the operator at a terminal: they may repeat a prompt, so they are
   * for no log, and for no client.
   */
  readonly words: string | undefined;

  constructor(
    fault: UpstreamFault,
    outcome: UpstreamOutcome,
    details: {
      status?: number | undefined;
      retryAfterMs?: number | undefined;
      shown?: { message: string; extra: ErrorExtra } | undefined;
      providerCode?: string | undefined;
      accountFault?: AccountFault | undefined;
      words?: string | undefined;
      cause?: unknown;
    } = {},
  ) {
    super(`upstream: ${outcome}`, { cause: details.cause });
    this.fault = fault;
    this.outcome = outcome;
    this.status = details.status;
    this.retryAfterMs = details.retryAfterMs;
    this.shown = details.shown;
    this.providerCode = details.providerCode;
    this.accountFault = details.accountFault;
    this.words = details.words;
  }

  /** The provider's code is one for a model that it does not have: that was named by the config, and not by the caller. */
  get isOfUnknownModel(): boolean {
    return UNKNOWN_MODEL.test(this.providerCode ?? "");
  }

  /** The same with the status that the answer had begun with, where there is none yet. */
  withStatus(status: number | undefined): UpstreamError {
    if (this.status !== undefined || status === undefined) return this;
    const { retryAfterMs, shown, providerCode, accountFault, words, cause } = this;
    const details = { status, retryAfterMs, shown, providerCode, accountFault, words, cause };
    return new UpstreamError(this.fault, this.outcome, details);
  }
}

/** A fault of our own code or store amid an attempt, as the reason to end it. */
export function ownFault(cause: unknown): UpstreamError {
  return new UpstreamError("gateway", "internal", { cause });
}
