import type { ErrorExtra } from "../contract/errors.ts";
import { connectionErrors } from "./http/connectionError.ts";

/**
 * Who is responsible for a failed attempt, what is tried next, and what the health of the route learns. docs/reference/errors.md
 * lists them.
 */
export const upstreamFaults = {
  caller: "The request is wrong. No other route is tried: 400.",
  excessive: "The request leads to more than the gateway can read. No other route is tried: 502.",
  unsupported:
    "The route's interface cannot express the request. Nothing is sent, and the next route is tried.",
  isolated: "This one request failed. The next route is tried, and the health stays.",
  tooLarge:
    "The request is too large for the route. The next route is tried; if there is none: 400 or 429.",
  notFound: "The provider answered 404. A chat tries the next route; a response is a 404.",
  account:
    "The provider refuses the operator's account, or the account is empty. The next route is tried, and the provider has a cooldown.",
  keyExpired:
    "The provider refuses a key that expires, and the gateway gets another one. The next route is tried, then the same one with the new key.",
  forbidden:
    "A 403 without known words. The next route is tried. The provider has a cooldown once a second account, or the gateway's own request, gets it too.",
  modelQuota:
    "The operator's quota of this model is used up. The next route is tried, and the route has a cooldown.",
  operator:
    "The operator must act at the provider, for example verify the organization. The next route is tried, and a notice is sent.",
  rateLimited:
    "The provider's rate limit is reached. The next route is tried. The route has a cooldown if the provider names a time; else it counts.",
  client: "The client disconnected. Nothing is tried.",
  gateway: "The gateway stops, its database fails, or it has a bug. No other route is tried: 502.",
  provider: "Every other failure. The next route is tried, and it counts for the circuit breaker.",
} as const;
export type UpstreamFault = keyof typeof upstreamFaults;

/**
 * How a failed attempt ended, in its record, the log and the metrics. A fixed set, because each value is a metric label.
 * docs/reference/errors.md lists them.
 */
export const attemptOutcomes = {
  ...connectionErrors,
  "content type": "JSON came where a stream was asked for, or a stream where JSON was.",
  compressed: "The answer is compressed. The gateway asks for none and does not unpack any.",
  "empty answer": "The stream ended without content.",
  "invalid answer": "The answer is not what the interface promises.",
  "incomplete answer": "The stream ended without its end marker.",
  "endless answer": "The answer has far more text than the model can produce.",
  "too large":
    "The answer, or one event of it, is over 32 MiB. An embeddings answer of kind `openai`: 192 MiB.",
  "reported failure": "The provider reported an error in an answer with the status 200.",
  "isolated failure":
    "The model failed at this one request, or its answer cannot be read. The health of the route stays.",
  "unrequested data": "Data came after the end of an answer.",
  "key expired": "The provider refused a key for its age. The gateway gets another one.",
  "no key": "The command or the server that gives the key gave none.",
  unsupported: "The interface of the route cannot express the request. Nothing was sent.",
  "client disconnected": "The client closed its connection.",
  shutdown: "The gateway stopped.",
  database: "The database failed.",
  "internal error": "A bug of the gateway.",
} as const;
export type UpstreamOutcome = `status ${number}` | keyof typeof attemptOutcomes;

/** Why the provider refuses the operator's account, if it says so. */
export type AccountFault = "key" | "empty" | "country";

/** The error that a client may get: no secrets, at most 512 characters. */
interface ClientError {
  readonly message: string;
  /** The request is above a rate limit, so its status is 429 instead of 400. */
  readonly isRateLimit?: boolean;
  readonly extra: ErrorExtra;
}

interface ErrorDetails {
  readonly status?: number | undefined;
  readonly retryAfterMs?: number | undefined;
  readonly clientError?: ClientError | undefined;
  readonly providerCode?: string | undefined;
  readonly accountFault?: AccountFault | undefined;
  readonly providerMessage?: string | undefined;
  readonly cause?: unknown;
}

/** Codes for an unknown model. Azure calls a model a deployment. */
const UNKNOWN_MODEL = /model|^DeploymentNotFound$/i;

/** An attempt at a provider failed, before its answer began or within it. */
export class UpstreamError extends Error {
  override readonly name = "UpstreamError";
  readonly fault: UpstreamFault;
  readonly outcome: UpstreamOutcome;
  /** The provider's HTTP status, if it sent one. */
  readonly status: number | undefined;
  /** How long the provider asks not to be called. */
  readonly retryAfterMs: number | undefined;
  /** Only with the faults `caller`, `tooLarge` and `unsupported`. */
  readonly clientError: ClientError | undefined;
  /** The provider's own code for the error, such as `model_not_found`. */
  readonly providerCode: string | undefined;
  /** Only with the fault `account`. */
  readonly accountFault: AccountFault | undefined;
  /** The provider's message without secrets. Only for the operator's terminal: it may repeat a prompt. */
  readonly providerMessage: string | undefined;

  constructor(fault: UpstreamFault, outcome: UpstreamOutcome, details: ErrorDetails = {}) {
    super(`upstream: ${outcome}`, { cause: details.cause });
    this.fault = fault;
    this.outcome = outcome;
    this.status = details.status;
    this.retryAfterMs = details.retryAfterMs;
    this.clientError = details.clientError;
    this.providerCode = details.providerCode;
    this.accountFault = details.accountFault;
    this.providerMessage = details.providerMessage;
  }

  /** The provider does not have the model. The config named it, so the caller is not responsible. */
  get isUnknownModel(): boolean {
    return UNKNOWN_MODEL.test(this.providerCode ?? "");
  }

  /** Returns this error with the status of the answer, unless it has a status already. */
  withStatus(status: number | undefined): UpstreamError {
    if (this.status !== undefined || status === undefined) return this;
    const { retryAfterMs, clientError, providerCode, accountFault, providerMessage, cause } = this;
    const details = { status, retryAfterMs, clientError, providerCode, accountFault };
    return new UpstreamError(this.fault, this.outcome, { ...details, providerMessage, cause });
  }
}

/** The reason to end an attempt when the gateway's own code fails. */
export function ownFault(cause: unknown): UpstreamError {
  return new UpstreamError("gateway", "internal error", { cause });
}
