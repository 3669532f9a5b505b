/** The only values of `error.type` that clients see. */
export const errorTypes = [
  "invalid_request_error",
  "auth_error",
  "billing_error",
  "rate_limit_error",
  "provider_error",
] as const;
export type ErrorType = (typeof errorTypes)[number];

/** The only statuses of errors under /v1, each with its type. */
const typeOfStatus = {
  400: "invalid_request_error",
  401: "auth_error",
  402: "billing_error",
  404: "invalid_request_error",
  429: "rate_limit_error",
  502: "provider_error",
} as const satisfies Readonly<Record<number, ErrorType>>;
export type ErrorStatus = keyof typeof typeOfStatus;

/** Optional fields of `error`. Amounts are roubles as decimal strings. */
export interface ErrorExtra {
  readonly code?: string | number | null;
  readonly param?: string | null;
  /** By these fields a client of Anthropic decides how to go on: https://platform.claude.com/docs/en/api/errors */
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
    message: string,
    options: { extra?: ErrorExtra; retryAfterMs?: number | undefined; cause?: unknown } = {},
  ) {
    super(message, "cause" in options ? { cause: options.cause } : {});
    this.status = status;
    this.type = typeOfStatus[status];
    this.extra = options.extra ?? {};
    this.retryAfterSeconds =
      options.retryAfterMs === undefined ? undefined : wholeSeconds(options.retryAfterMs);
  }

  toBody(): ErrorBody {
    return { error: { message: this.message, type: this.type, ...this.extra } };
  }
}

/** Returns the error with a time for the next try. An error that has one stays as it is. */
export function withRetryAfter(error: ApiError, retryAfterMs: number): ApiError {
  if (error.retryAfterSeconds !== undefined) return error;
  const { status, message, extra, cause } = error;
  return new ApiError(status, message, { extra, retryAfterMs, cause });
}

interface ClientError {
  readonly status: ErrorStatus;
  readonly message: string;
  /** Markdown of one line. */
  readonly when: string;
}

/** The errors whose message is always the same. docs/reference/errors.md lists them. */
export const clientErrors = {
  invalidApiKey: {
    status: 401,
    message: "invalid api key",
    when: "The key is missing, malformed, unknown, revoked or expired, or its account is disabled. The message adds what the header has beside the key.",
  },
  insufficientBalance: {
    status: 402,
    message: "insufficient balance",
    when: "The most that the request can cost is more than the account or the key's budget has. Code `insufficient_balance`.",
  },
  modelNotFound: {
    status: 404,
    message: "model not found",
    when: "The model does not exist, or the key may not use it.",
  },
  responseNotFound: {
    status: 404,
    message: "response not found",
    when: "This account did not create the `previous_response_id`.",
  },
  resourceNotFound: {
    status: 404,
    message: "resource not found",
    when: "This account may not use the stored object, or it does not exist.",
  },
  requestNotFound: {
    status: 404,
    message: "request not found",
    when: "This account has no record of the request.",
  },
  voucherNotFound: {
    status: 404,
    message: "voucher not found",
    when: "No voucher that this account can redeem has the code: it is unknown, revoked, expired or redeemed.",
  },
  notFound: {
    status: 404,
    message: "not found",
    when: "The path does not exist, or not with this method.",
  },
  rateLimitExceeded: {
    status: 429,
    message: "rate limit exceeded",
    when: "A limit of the gateway. `retry-after` says when to try again.",
  },
  balanceHeld: {
    status: 429,
    message: "rate limit exceeded",
    when: "Other open requests of the account hold the money that this request needs. Code `balance_held`.",
  },
  allProvidersUnavailable: {
    status: 502,
    message: "all providers unavailable",
    when: "No route is left. `retry-after` says when one may be tried again, if that is known.",
  },
  serviceUnavailable: {
    status: 502,
    message: "service temporarily unavailable",
    when: "A fault of the gateway: its store cannot be written, or it shuts down. The cause is in the log only.",
  },
} as const satisfies Readonly<Record<string, ClientError>>;

type Details = ConstructorParameters<typeof ApiError>[2];

/** One of `clientErrors`. `beside`: what its message adds. */
function clientError(name: keyof typeof clientErrors, details?: Details, beside = ""): ApiError {
  const { status, message } = clientErrors[name];
  return new ApiError(status, `${message}${beside}`, details);
}

/** 400: the request is at fault. The message is ours, or the provider's with its `code` and `param`. */
export function invalidRequest(message: string, extra: ErrorExtra = {}): ApiError {
  return new ApiError(400, message, { extra });
}

/**
 * 400: the prompt is certainly longer than the model's context. Clients know these words, and shorten the
 * conversation: OpenAI's with its code, or Anthropic's.
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
 * `foreign`: what stands beside the key in the header and does not belong there. It is the same for a right and a
 * wrong key.
 */
export function invalidApiKey(foreign?: string): ApiError {
  const advice =
    foreign === undefined ? "" : `: the header has ${foreign} beside the key, send the key alone`;
  return clientError("invalidApiKey", {}, advice);
}

/** Both amounts are roubles as decimal strings. */
export function insufficientBalance(requiredRub: string, availableRub: string): ApiError {
  const extra = {
    code: "insufficient_balance",
    required_rub: requiredRub,
    available_rub: availableRub,
  };
  return clientError("insufficientBalance", { extra });
}

export const modelNotFound = () => clientError("modelNotFound");
export const notFound = () => clientError("notFound");
export const responseNotFound = () => clientError("responseNotFound");
export const resourceNotFound = () => clientError("resourceNotFound");
export const requestNotFound = () => clientError("requestNotFound");
export const voucherNotFound = () => clientError("voucherNotFound");

/** The retry delay for a resource that may become free at any moment. */
export const SOON_MS = 1000;

export function rateLimitExceeded(retryAfterMs = SOON_MS): ApiError {
  return clientError("rateLimitExceeded", { retryAfterMs });
}

/** 429 in the provider's words: this request alone has more tokens than its provider takes in a minute. */
export function aboveRateLimit(message: string, extra: ErrorExtra): ApiError {
  return new ApiError(429, message, { extra, retryAfterMs: SOON_MS });
}

/** Both amounts are roubles as decimal strings. */
export function balanceHeld(requiredRub: string, availableRub: string): ApiError {
  const extra = { code: "balance_held", required_rub: requiredRub, available_rub: availableRub };
  return clientError("balanceHeld", { extra, retryAfterMs: SOON_MS });
}

/** `retryAfterMs`: the time until a route may be tried again, if known. */
export function allProvidersUnavailable(retryAfterMs?: number): ApiError {
  return clientError("allProvidersUnavailable", { retryAfterMs });
}

/** The cause is for the log only. */
export function serviceUnavailable(cause: unknown): ApiError {
  const retryAfterMs = isPassing(cause) ? cause.retryAfterMs : undefined;
  return clientError("serviceUnavailable", { cause, retryAfterMs });
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
