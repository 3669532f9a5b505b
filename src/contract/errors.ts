/** The only values of `error.type` that clients see. */
export const errorTypes = [
  "invalid_request_error",
  "auth_error",
  "billing_error",
  "rate_limit_error",
  "provider_error",
] as const;
export type ErrorType = (typeof errorTypes)[number];

/** The only statuses of errors under /v1. */
export type ErrorStatus = 400 | 401 | 402 | 404 | 429 | 502;

/** Fields that may stand in `error` beside `message` and `type`. Amounts are roubles as decimal strings. */
export interface ErrorExtra {
  readonly code?: string | number | null;
  readonly param?: string | null;
  readonly required_rub?: string;
  readonly available_rub?: string;
}

/** The body of every error. */
export interface ErrorBody {
  readonly error: { readonly message: string; readonly type: ErrorType } & ErrorExtra;
}

/**
 * The only error that a client sees; everything else that is thrown becomes `serviceUnavailable`.
 * Its message is for the client. Its `cause` is for the log, and never holds text of a request.
 */
export class ApiError extends Error {
  override readonly name = "ApiError";
  readonly status: ErrorStatus;
  readonly type: ErrorType;
  readonly extra: ErrorExtra;
  /** The value of the `retry-after` header: whole seconds, at least 1. */
  readonly retryAfterSeconds: number | undefined;

  constructor(
    status: ErrorStatus,
    type: ErrorType,
    message: string,
    options: { extra?: ErrorExtra; retryAfterMs?: number | undefined; cause?: unknown } = {},
  ) {
    super(message, "cause" in options ? { cause: options.cause } : {});
    this.status = status;
    this.type = type;
    this.extra = options.extra ?? {};
    this.retryAfterSeconds =
      options.retryAfterMs === undefined ? undefined : wholeSeconds(options.retryAfterMs);
  }

  /** What the client is sent, as JSON. */
  toBody(): ErrorBody {
    return { error: { message: this.message, type: this.type, ...this.extra } };
  }
}

/** 400: the request itself is at fault, in our words or, with its `code` and `param`, in the provider's. */
export function invalidRequest(message: string, extra: ErrorExtra = {}): ApiError {
  return new ApiError(400, "invalid_request_error", message, { extra });
}

/** 400: its client went away before the whole of it had come, or had been answered; the log alone hears of it. */
export function incompleteRequest(): ApiError {
  return invalidRequest("the request was not completed");
}

/** 401: the key is missing, malformed, unknown, revoked, expired, or its account is disabled. All look the same. */
export function invalidApiKey(): ApiError {
  return new ApiError(401, "auth_error", "invalid api key");
}

/** 402: the hold can never fit. Both amounts are roubles as decimal strings. */
export function insufficientBalance(requiredRub: string, availableRub: string): ApiError {
  return new ApiError(402, "billing_error", "insufficient balance", {
    extra: {
      code: "insufficient_balance",
      required_rub: requiredRub,
      available_rub: availableRub,
    },
  });
}

/** 404: no such model, or none that the key may use. */
export function modelNotFound(): ApiError {
  return new ApiError(404, "invalid_request_error", "model not found");
}

/** 404: no such path, or not with this method. */
export function notFound(): ApiError {
  return new ApiError(404, "invalid_request_error", "not found");
}

/** 404: a `previous_response_id` that this account did not make, or that never was. */
export function responseNotFound(): ApiError {
  return new ApiError(404, "invalid_request_error", "response not found");
}

/** 404: another stored object that this account may not name, or that never was. */
export function resourceNotFound(): ApiError {
  return new ApiError(404, "invalid_request_error", "resource not found");
}

/** 404: a request that this account did not make, whose record is no longer kept, or that never was. */
export function requestNotFound(): ApiError {
  return new ApiError(404, "invalid_request_error", "request not found");
}

/** The wait where what is lacking may be there at any moment. */
export const SOON_MS = 1000;

/** 429: a limit of the gateway's own. The client is told the wait in whole seconds, rounded up. */
export function rateLimitExceeded(retryAfterMs = SOON_MS): ApiError {
  return new ApiError(429, "rate_limit_error", "rate limit exceeded", { retryAfterMs });
}

/**
 * 429: the account's other open requests hold the money that the request needs. Both amounts are roubles as decimal
 * strings. Money may be free, or spent, as soon as one of them ends.
 */
export function balanceHeld(requiredRub: string, availableRub: string): ApiError {
  return new ApiError(429, "rate_limit_error", "rate limit exceeded", {
    extra: { code: "balance_held", required_rub: requiredRub, available_rub: availableRub },
    retryAfterMs: SOON_MS,
  });
}

/** 502: no route is left. `retryAfterMs` is the time until the first route is worth another try; undefined: unknown. */
export function allProvidersUnavailable(retryAfterMs?: number): ApiError {
  return new ApiError(502, "provider_error", "all providers unavailable", { retryAfterMs });
}

/** 502: a fault of our own. The cause is for the log only. */
export function serviceUnavailable(cause: unknown): ApiError {
  return new ApiError(502, "provider_error", "service temporarily unavailable", { cause });
}

/** What a stream says of the failure that ended it. */
export type StreamFailure = ErrorBody["error"];

/** The usual one: the provider failed after its answer began. */
export const upstreamFailure: StreamFailure = {
  message: "upstream provider failure",
  type: "provider_error",
};

function wholeSeconds(ms: number): number {
  return Number.isFinite(ms) ? Math.max(1, Math.ceil(ms / 1000)) : 1;
}
