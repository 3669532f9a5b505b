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

/** Optional fields of `error`. Amounts are roubles as decimal strings. */
export interface ErrorExtra {
  readonly code?: string | number | null;
  readonly param?: string | null;
  /** What a client of Anthropic goes on by: https://platform.claude.com/docs/en/api/errors */
  readonly details?: { error_code: string; unsupported: string[] };
  readonly required_rub?: string;
  readonly available_rub?: string;
}

/** The body of every error. */
export interface ErrorBody {
  readonly error: { readonly message: string; readonly type: ErrorType } & ErrorExtra;
}

/**
 * The only error that a client sees. Every other thrown value becomes `serviceUnavailable`. The message is for the
 * client. The `cause` is for the log and never holds text of a request.
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

  toBody(): ErrorBody {
    return { error: { message: this.message, type: this.type, ...this.extra } };
  }
}

/** The same error with a time for the next try, unless it has one. */
export function withRetryAfter(error: ApiError, retryAfterMs: number): ApiError {
  if (error.retryAfterSeconds !== undefined) return error;
  const { status, type, message, extra, cause } = error;
  return new ApiError(status, type, message, { extra, retryAfterMs, cause });
}

/** 400: the request is at fault. The message is ours, or the provider's with its `code` and `param`. */
export function invalidRequest(message: string, extra: ErrorExtra = {}): ApiError {
  return new ApiError(400, "invalid_request_error", message, { extra });
}

/**
 * 400: the prompt is certainly longer than the model's context. The words are those by which clients know that they must
 * shorten it: OpenAI's with its code, or Anthropic's.
 */
export function promptTooLong(
  { estimate, contextTokens }: { estimate: number; contextTokens: number },
  isForAnthropic: boolean,
): ApiError {
  if (isForAnthropic) {
    return invalidRequest(
      `prompt is too long: ${estimate} tokens > ${contextTokens} maximum (the gateway's estimate)`,
    );
  }
  return invalidRequest(
    `this model's maximum context length is ${contextTokens} tokens, and the prompt is estimated to have ${estimate}`,
    { code: "context_length_exceeded" },
  );
}

/**
 * 426: a WebSocket for responses. It is the one status beyond the six under /v1, because Codex turns to HTTP at once for
 * no other.
 */
export const upgradeRefused = {
  status: 426,
  body: {
    error: {
      message: "websocket is not supported: send the request as POST /v1/responses",
      type: "invalid_request_error",
    },
  } satisfies ErrorBody,
  // The protocol to use instead: https://www.rfc-editor.org/rfc/rfc9110#section-15.5.22
  headers: { upgrade: "HTTP/1.1", connection: "upgrade" },
} as const;

/** 400: the client disconnected before its request was complete or answered. Only the log shows it. */
export function incompleteRequest(): ApiError {
  return invalidRequest("the request was not completed");
}

/**
 * 401: the key is missing, malformed, unknown, revoked, expired, or its account is disabled. All get the same answer.
 * `foreign`: what the header has beside the key that does not belong to it, whatever the key is.
 */
export function invalidApiKey(foreign?: string): ApiError {
  const advice =
    foreign === undefined ? "" : `: the header has ${foreign} beside the key, send the key alone`;
  return new ApiError(401, "auth_error", `invalid api key${advice}`);
}

/** 402: the hold is larger than what is available, even without other holds. Both amounts are roubles as decimal strings. */
export function insufficientBalance(requiredRub: string, availableRub: string): ApiError {
  return new ApiError(402, "billing_error", "insufficient balance", {
    extra: {
      code: "insufficient_balance",
      required_rub: requiredRub,
      available_rub: availableRub,
    },
  });
}

/** 404: the model does not exist, or the key may not use it. */
export function modelNotFound(): ApiError {
  return new ApiError(404, "invalid_request_error", "model not found");
}

/** 404: the path does not exist, or not with this method. */
export function notFound(): ApiError {
  return new ApiError(404, "invalid_request_error", "not found");
}

/** 404: this account did not create the `previous_response_id`. */
export function responseNotFound(): ApiError {
  return new ApiError(404, "invalid_request_error", "response not found");
}

/** 404: this account may not use the stored object, or it does not exist. */
export function resourceNotFound(): ApiError {
  return new ApiError(404, "invalid_request_error", "resource not found");
}

/** 404: this account has no record of the request. */
export function requestNotFound(): ApiError {
  return new ApiError(404, "invalid_request_error", "request not found");
}

/** 404: no voucher that this account can redeem has the code. Unknown, revoked, expired and redeemed ones get the same answer. */
export function voucherNotFound(): ApiError {
  return new ApiError(404, "invalid_request_error", "voucher not found");
}

/** The retry delay for a resource that may become free at any moment. */
export const SOON_MS = 1000;

/** 429: a limit of the gateway. `retry-after` is in whole seconds, rounded up. */
export function rateLimitExceeded(retryAfterMs = SOON_MS): ApiError {
  return new ApiError(429, "rate_limit_error", "rate limit exceeded", { retryAfterMs });
}

/** 429 in the provider's words: this request alone has more tokens than its provider takes in a minute. */
export function aboveRateLimit(message: string, extra: ErrorExtra): ApiError {
  return new ApiError(429, "rate_limit_error", message, { extra, retryAfterMs: SOON_MS });
}

/**
 * 429: other open requests of the account hold the money that this request needs. Both amounts are roubles as decimal
 * strings.
 */
export function balanceHeld(requiredRub: string, availableRub: string): ApiError {
  return new ApiError(429, "rate_limit_error", "rate limit exceeded", {
    extra: { code: "balance_held", required_rub: requiredRub, available_rub: availableRub },
    retryAfterMs: SOON_MS,
  });
}

/** 502: no route is left. `retryAfterMs`: the time until a route may be tried again, if known. */
export function allProvidersUnavailable(retryAfterMs?: number): ApiError {
  return new ApiError(502, "provider_error", "all providers unavailable", { retryAfterMs });
}

/** 502: a fault of the gateway. The cause is for the log only. */
export function serviceUnavailable(cause: unknown): ApiError {
  return new ApiError(502, "provider_error", "service temporarily unavailable", {
    cause,
    retryAfterMs: isPassing(cause) ? cause.retryAfterMs : undefined,
  });
}

/** A fault that ends by itself, and says when to try again. */
function isPassing(cause: unknown): cause is { readonly retryAfterMs: number } {
  return (
    cause instanceof Error && "retryAfterMs" in cause && typeof cause.retryAfterMs === "number"
  );
}

/** The error in the last event of a failed stream. */
export type StreamFailure = ErrorBody["error"];

/** The provider failed after its answer began. */
export const upstreamFailure: StreamFailure = {
  message: "upstream provider failure",
  type: "provider_error",
};

/** The gateway failed after the answer began: its charge cannot be committed, or it stops. */
export const gatewayFailure: StreamFailure = serviceUnavailable(undefined).toBody().error;

function wholeSeconds(ms: number): number {
  return Number.isFinite(ms) ? Math.max(1, Math.ceil(ms / 1000)) : 1;
}
