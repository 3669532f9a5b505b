import type { ErrorExtra } from "../contract/errors.ts";

/**
 * Whose fault a failed attempt is, and so what follows:
 * - `caller`: the request itself; no other provider is tried
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
  | "unfit"
  | "misfire"
  | "missing"
  | "account"
  | "limited"
  | "client"
  | "gateway"
  | "provider";

/** An attempt at a provider failed before its answer began, or in the midst of it. */
export class UpstreamError extends Error {
  override readonly name = "UpstreamError";
  readonly fault: UpstreamFault;
  /** A short word for the attempt's record and the log: `timeout`, `closed`, `status`, `answer`. */
  readonly outcome: string;
  /** The provider's HTTP status, if it gave one. */
  readonly status: number | undefined;
  /** How long the provider asks to be left alone. */
  readonly retryAfterMs: number | undefined;
  /** What a client may be told, scrubbed; only with the faults `caller` and `unfit`. */
  readonly shown: { message: string; extra: ErrorExtra } | undefined;
  /** The provider's own code for the error, such as `model_not_found`. */
  readonly providerCode: string | undefined;

  constructor(
    fault: UpstreamFault,
    outcome: string,
    details: {
      status?: number | undefined;
      retryAfterMs?: number | undefined;
      shown?: { message: string; extra: ErrorExtra } | undefined;
      providerCode?: string | undefined;
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
  }
}
