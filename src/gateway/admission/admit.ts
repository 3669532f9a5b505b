import {
  amountRangeOf,
  dearerPrice,
  boundWithin,
  promptLimits,
  type AmountRange,
  type BoundedPrompt,
  type TokenLimits,
  type OutputBound,
  type PromptExtent,
} from "../../billing/cost.ts";
import type { Hold, HoldOwner, HoldRefusal } from "../../billing/hold.ts";
import { recordedPrices, RequestMeter, type Meter } from "../../billing/meter.ts";
import type { Endpoint } from "../../contract/account/requestStatus.ts";
import {
  balanceHeld,
  insufficientBalance,
  type ApiError,
  promptTooLong,
  rateLimitExceeded,
  serviceUnavailable,
} from "../../contract/errors.ts";
import { formatRoubles } from "../../lib/money.ts";
import { WriteError } from "../../store/store.ts";
import { chatCandidatesOf, type CatalogModel, type ModelChain } from "../catalog.ts";
import { CLIENT_STALL_MS } from "../streaming/backpressure.ts";
import { ShuttingDown, type Gateway, type RequestContext } from "../gateway.ts";
import type { ModelConfig } from "../../config/schema.ts";
import type { Candidate } from "../../routing/candidates.ts";
import type { UsageProblem } from "../decoding/answerDecoder.ts";

/** What admission needs to know about a request. */
export interface AdmissionRequest {
  endpoint: Endpoint;
  stream: boolean;
  prompt: PromptExtent | BoundedPrompt;
  /** Estimated prompt tokens, for the token rate. */
  promptEstimate: number;
  /** The fewest tokens that the prompt can have. 0 where a longer prompt is cut by the provider. */
  promptTokensMin: number;
  /** The most tokens that files and pictures of the prompt can have beyond that. */
  attachmentTokens: number;
  /** The caller's bound of tokens for one choice. */
  outputTokensBound: number | undefined;
  choiceCount: number;
}

/** The result of admission. The meter must be settled, however the request ends. */
export interface Admission {
  meter: Meter;
  tokenLimits: TokenLimits;
  /** The caller's bound of each choice. */
  callersBound: number | undefined;
  /** The bounds of each choice for a route of this model. */
  boundsFor: (model: ModelConfig) => ChoiceBounds;
  promptEstimate: number;
  attachmentTokens: number;
  choiceCount: number;
  /** The most tokens that the model can generate for all choices together. */
  modelTokensMax: number;
  warnOfUsage: UsageWarning;
}

/** The bounds in tokens of each choice. */
export interface ChoiceBounds {
  /** The bound to send: the caller's, or a smaller one that the money pays for. Undefined: none. */
  readonly outputTokensBound: number | undefined;
  /** The tokens that the hold pays for. */
  readonly outputTokensMax: number;
}

/** The time of a request besides its attempts: pauses between them, a slow commit, a client that does not read. */
const LEAK_TIMEOUT_MS = 60_000 + CLIENT_STALL_MS;

/**
 * Refuses a prompt that cannot fit (400), takes the prompt's estimate from the token rate (429), and holds the most that the request can cost (402; 429 if other
 * open requests of the account hold the money for too long). Throws ApiError.
 */
export async function admit(
  gateway: Gateway,
  context: RequestContext,
  models: ModelChain,
  ask: AdmissionRequest,
): Promise<Admission> {
  const { caller, permit, snapshot, span } = context;
  refuseLongPrompt(models, ask);
  const takenTokens = permit.takeTokens(ask.promptEstimate);
  const rated = takenTokens instanceof Promise ? await takenTokens : takenTokens;
  if (!rated.ok) throw rateLimitExceeded(rated.retryAfterMs);

  const [{ config }] = models;
  const dearest = dearestOf(models);
  const limits = promptLimits(ask.prompt, { ...dearest, estimate: ask.promptEstimate });
  const bound = outputBoundOf(ask, models, dearest, snapshot.config.billing.minOutputTokens);
  const range = amountRangeOf(limits, bound, ask.choiceCount, dearest.price);

  const hold = await holdMoney(gateway, context, range).catch((error: unknown) => {
    permit.correctTokens(0);
    throw error;
  });
  const outputTokensMax = boundWithin(range, hold.amount, bound);
  const isShrunk = outputTokensMax < bound.most;
  const meter = new RequestMeter({
    writer: gateway.writer,
    clock: gateway.clock,
    hold,
    price: config.price,
    withinMs: dearest.attemptsMsMax + LEAK_TIMEOUT_MS,
    open: gateway.openMeters,
    onSettled: (receipt) => {
      gateway.metrics.requestEnded({ ...receipt, endpoint: ask.endpoint });
      span?.settled(receipt, receipt.model);
    },
    request: {
      publicId: context.requestId,
      at: gateway.clock.epochMs(),
      accountId: caller.accountId,
      keyId: caller.id,
      firstKeyId: caller.firstKeyId,
      endpoint: ask.endpoint,
      model: config.id,
      stream: ask.stream,
      ...recordedPrices(config.price),
      hold: hold.amount,
    },
  });
  return {
    meter,
    tokenLimits: { ...limits, completionTokens: outputTokensMax * ask.choiceCount },
    callersBound: ask.outputTokensBound,
    boundsFor: boundsOf(config, ask.outputTokensBound, isShrunk, outputTokensMax),
    promptEstimate: ask.promptEstimate,
    attachmentTokens: ask.attachmentTokens,
    choiceCount: ask.choiceCount,
    modelTokensMax: dearest.maxOutputTokens * ask.choiceCount,
    warnOfUsage: warnOfUsage(gateway, context.requestId, config),
  };
}

/** Throws ApiError 400 for a prompt that the model which the client asks for cannot read. */
function refuseLongPrompt([{ config }]: ModelChain, ask: AdmissionRequest): void {
  const { contextTokens, isContextKnown } = config;
  if (!isContextKnown || ask.promptTokensMin <= contextTokens) return;
  throw promptTooLong({ estimate: ask.promptEstimate, contextTokens }, ask.endpoint === "messages");
}

/** The bound that replaces the caller's in the client's own text, for a fallback that refuses it. Undefined: none does. */
export function changedBound(
  { boundsFor, callersBound }: Admission,
  { model }: Candidate,
): number | undefined {
  const { outputTokensBound } = boundsFor(model);
  return outputTokensBound === callersBound ? undefined : outputTokensBound;
}

/**
 * The caller's bound is not changed for the model that was asked for. A fallback may generate fewer tokens, and refuses a
 * larger bound. A separate function, because a stream retains its result (memory rules: docs/architecture.md).
 */
function boundsOf(
  asked: ModelConfig,
  callersBound: number | undefined,
  isShrunk: boolean,
  paid: number,
): Admission["boundsFor"] {
  return (model) => {
    const isFixed = callersBound !== undefined && model === asked;
    const outputTokensMax = isFixed ? paid : Math.min(paid, model.maxOutputTokens);
    if (isShrunk) return { outputTokensBound: outputTokensMax, outputTokensMax };
    if (callersBound === undefined || isFixed) {
      return { outputTokensBound: callersBound, outputTokensMax };
    }
    return { outputTokensBound: Math.min(callersBound, model.maxOutputTokens), outputTokensMax };
  };
}

/** The most of each price and of each limit, for a hold that pays for an answer of any of the models. */
type Dearest = Pick<ModelConfig, "price" | "contextTokens" | "isContextKnown" | "maxOutputTokens"> &
  Pick<CatalogModel, "attemptsMsMax">;

function dearestOf(models: ModelChain): Dearest {
  const [first, ...others] = models;
  let { price, contextTokens, isContextKnown, maxOutputTokens } = first.config;
  let { attemptsMsMax } = first;
  for (const { config, attemptsMsMax: more } of others) {
    price = dearerPrice(price, config.price);
    contextTokens = Math.max(contextTokens, config.contextTokens);
    isContextKnown &&= config.isContextKnown;
    maxOutputTokens = Math.max(maxOutputTokens, config.maxOutputTokens);
    attemptsMsMax += more;
  }
  return { price, contextTokens, isContextKnown, maxOutputTokens, attemptsMsMax };
}

/**
 * A bound of the caller is not changed. A chat without a bound may get one, down to `min_output_tokens`. A responses body
 * is not changed, so it gets none. If a provider's bound excludes reasoning, all that the model can generate is held.
 */
function outputBoundOf(
  ask: AdmissionRequest,
  models: ModelChain,
  { maxOutputTokens }: Dearest,
  minOutputTokens: number,
): OutputBound {
  const candidates = chatCandidatesOf(models);
  if (candidates.some(({ provider }) => !provider.config.boundsReasoning)) {
    const all = Math.max(ask.outputTokensBound ?? 0, maxOutputTokens);
    return { most: all, least: all };
  }
  const most = ask.outputTokensBound ?? maxOutputTokens;
  const mayShrink = ask.endpoint === "chat" && ask.outputTokensBound === undefined;
  return { most, least: mayShrink ? Math.min(minOutputTokens, most) : most };
}

/**
 * Holds money, and waits up to `hold_wait` for money that other open requests of the account hold, or for a credit. A bound
 * that can shrink does so at once, because it is unknown whether waiting would free more. Throws ApiError.
 */
async function holdMoney(
  gateway: Gateway,
  context: RequestContext,
  range: AmountRange,
): Promise<Hold> {
  const { requestId, signal } = context;
  const owner = { ...payerOf(context), requestId };
  const holdWait = { waitMs: context.snapshot.config.billing.holdWaitMs, signal };
  const result = await gateway.holds.takeOrWait(holdWait, owner, range);
  if (result.ok) return result.hold;
  throw moneyError(result);
}

/**
 * Throws ApiError 402 if the account and the key's budget can pay for nothing that the key may use. It comes before the body
 * is read, so that a client without money takes no time of others.
 */
export function refuseWithoutMoney({ holds }: Gateway, context: RequestContext): void {
  const required = context.snapshot.catalog.leastCost(context.caller.models);
  // A free request needs no money.
  if (required === undefined || required === 0n) return;
  const refusal = holds.refusalOf(payerOf(context), required);
  if (refusal) throw moneyError(refusal);
}

function payerOf({ caller }: RequestContext): Omit<HoldOwner, "requestId"> {
  return { accountId: caller.accountId, keyId: caller.firstKeyId };
}

function moneyError({ reason, required, available }: HoldRefusal): ApiError {
  const error = reason === "busy" ? balanceHeld : insufficientBalance;
  return error(formatRoubles(required), formatRoubles(available));
}

/** Throws ApiError 502 while the database cannot be written or the gateway stops. Starts a probe write to find out when it can. */
export function refuseWhileUnwritable(gateway: Pick<Gateway, "inFlight" | "writer">): void {
  if (gateway.inFlight.isAborting) throw serviceUnavailable(new ShuttingDown());
  const { blockedBy } = gateway.writer;
  if (blockedBy === undefined) return;
  gateway.writer.probe();
  throw serviceUnavailable(new WriteError(blockedBy));
}

/** Logs a problem with the usage of one request. */
export type UsageWarning = (problem: UsageProblem) => void;

/** A separate function, because a stream retains its result (memory rules: docs/architecture.md). */
function warnOfUsage(gateway: Gateway, requestId: string, { id }: ModelConfig): UsageWarning {
  const fields = { request_id: requestId, model: id };
  return (problem) => {
    if (problem === "implausible") {
      gateway.log.error("usage_impossible", fields);
    } else if (problem === "decreased") {
      gateway.log.warn("usage_decreased", fields);
    } else if (problem === "total above its parts") {
      gateway.log.warn("usage_total_larger", fields);
    } else {
      gateway.log.warn("usage_above_maximum", fields);
    }
  };
}
