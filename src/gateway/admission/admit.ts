import {
  amountRangeOf,
  boundWithin,
  promptLimits,
  type AmountRange,
  type OutputBound,
} from "../../billing/cost.ts";
import type { Hold, HoldOwner, HoldRefusal } from "../../billing/hold.ts";
import { RequestMeter } from "../../billing/meter.ts";
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
import { higherPrice, type Price } from "../../contract/figures.ts";
import { highestPrice } from "../../contract/priceList.ts";
import { possibleTiers } from "../../contract/serviceTier.ts";
import { assert } from "../../lib/assert.ts";
import { chatCandidatesOf, type CatalogModel } from "../catalog.ts";
import { pricesFor } from "../soldPrices.ts";
import { CLIENT_STALL_MS } from "../streaming/backpressure.ts";
import { ShuttingDown, type Gateway } from "../gateway.ts";
import {
  withAdmitted,
  type AdmittedScope,
  type Checked,
  type CheckedScope,
  type RequestScope,
} from "../requestScope.ts";
import type { ModelConfig } from "../../config/schema.ts";
import type { Candidate } from "../../routing/candidates.ts";

/** The limits of tokens for each choice. */
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
export async function admit(scope: CheckedScope): Promise<AdmittedScope> {
  const { gateway, caller, permit, span, checked } = scope;
  const { endpoint, models, choiceCount, promptEstimate } = checked;
  refuseLongPrompt(checked);
  const takenTokens = permit.takeTokens(promptEstimate);
  const rated = takenTokens instanceof Promise ? await takenTokens : takenTokens;
  if (!rated.ok) throw rateLimitExceeded(rated.retryAfterMs);

  const [{ config }] = models;
  const prices = pricesFor(scope, config);
  const highest = highestOf(scope);
  const limits = promptLimits(checked.prompt, { ...highest, estimate: promptEstimate });
  const { minOutputTokens } = scope.snapshot.config.billing;
  const bound = outputBoundOf(checked, highest, minOutputTokens);
  const price = highestPriceOf(scope, limits.promptTokens);
  const range = amountRangeOf(limits, bound, choiceCount, price);

  const hold = await holdMoney(scope, range).catch((error: unknown) => {
    permit.correctTokens(0);
    throw error;
  });
  const paidTokens = boundWithin(range, hold.amount, bound);
  const meter = new RequestMeter({
    writer: gateway.writer,
    clock: gateway.clock,
    hold,
    prices,
    withinMs: highest.attemptsMsMax + LEAK_TIMEOUT_MS,
    open: gateway.openMeters,
    onSettled: (receipt) => {
      gateway.metrics.requestEnded({ ...receipt, endpoint });
      span?.settled(receipt, receipt.model);
    },
    request: {
      publicId: scope.requestId,
      at: gateway.clock.epochMs(),
      accountId: caller.accountId,
      keyId: caller.id,
      firstKeyId: caller.firstKeyId,
      endpoint,
      model: config.id,
      stream: checked.stream,
      price: prices.standard[0].price,
      hold: hold.amount,
    },
  });
  return withAdmitted(scope, {
    meter,
    tokenLimits: { ...limits, completionTokens: paidTokens * choiceCount },
    paidTokens,
    isShrunk: paidTokens < bound.most,
    modelTokensMax: highest.maxOutputTokens * choiceCount,
  });
}

/** Throws ApiError 400 for a prompt that cannot fit into the context of the requested model. */
function refuseLongPrompt({ models, promptEstimate, promptTokensMin, endpoint }: Checked): void {
  const { contextTokens, isContextKnown } = models[0].config;
  if (!isContextKnown || promptTokensMin <= contextTokens) return;
  throw promptTooLong({ estimate: promptEstimate, contextTokens }, endpoint === "messages");
}

/** The bound to write into the client's text, for a fallback with a lower limit. Undefined: the client's text stays. */
export function changedBound(scope: AdmittedScope, { model }: Candidate): number | undefined {
  const { outputTokensBound } = boundsFor(scope, model);
  return outputTokensBound === scope.checked.outputTokensBound ? undefined : outputTokensBound;
}

/**
 * The bounds of each choice for a route of this model. The caller's bound is not changed for the model that was asked for. A
 * fallback may generate fewer tokens, and refuses a larger bound.
 */
export function boundsFor({ checked, admitted }: AdmittedScope, model: ModelConfig): ChoiceBounds {
  const { outputTokensBound: callersBound, models } = checked;
  const { paidTokens, isShrunk } = admitted;
  const isFixed = callersBound !== undefined && model === models[0].config;
  const outputTokensMax = isFixed ? paidTokens : Math.min(paidTokens, model.maxOutputTokens);
  if (isShrunk) return { outputTokensBound: outputTokensMax, outputTokensMax };
  if (callersBound === undefined || isFixed) {
    return { outputTokensBound: callersBound, outputTokensMax };
  }
  return { outputTokensBound: Math.min(callersBound, model.maxOutputTokens), outputTokensMax };
}

/** The highest limits of all models, so that the hold pays for an answer of any of them. */
type Highest = Pick<ModelConfig, "contextTokens" | "isContextKnown" | "maxOutputTokens"> &
  Pick<CatalogModel, "attemptsMsMax">;

function highestOf({ checked }: CheckedScope): Highest {
  const [first, ...others] = checked.models;
  let { contextTokens, isContextKnown, maxOutputTokens } = first.config;
  let { attemptsMsMax } = first;
  for (const { config, attemptsMsMax: more } of others) {
    contextTokens = Math.max(contextTokens, config.contextTokens);
    isContextKnown &&= config.isContextKnown;
    maxOutputTokens = Math.max(maxOutputTokens, config.maxOutputTokens);
    attemptsMsMax += more;
  }
  return { contextTokens, isContextKnown, maxOutputTokens, attemptsMsMax };
}

/** The highest price, for each figure, in any tier that a prompt of at most this length can reach at any of the models. */
function highestPriceOf(scope: CheckedScope, promptTokensMax: number): Price {
  const { models, serviceTier } = scope.checked;
  const [first, ...others] = models.map(({ config }) => {
    const prices = pricesFor(scope, config);
    return highestPrice(prices, possibleTiers(prices, serviceTier), promptTokensMax);
  });
  assert(first !== undefined, "a request without a model");
  return others.reduce(higherPrice, first);
}

/**
 * A bound of the caller is not changed. A chat without a bound may get one, down to `min_output_tokens`. A responses body
 * is not changed, so it gets none. If a provider's bound excludes reasoning, all that the model can generate is held.
 */
function outputBoundOf(
  { models, endpoint, outputTokensBound }: Checked,
  { maxOutputTokens }: Highest,
  minOutputTokens: number,
): OutputBound {
  const candidates = chatCandidatesOf(models);
  if (candidates.some(({ provider }) => !provider.config.boundsReasoning)) {
    const all = Math.max(outputTokensBound ?? 0, maxOutputTokens);
    return { most: all, least: all };
  }
  const most = outputTokensBound ?? maxOutputTokens;
  const mayShrink = endpoint === "chat" && outputTokensBound === undefined;
  return { most, least: mayShrink ? Math.min(minOutputTokens, most) : most };
}

/**
 * Holds money, and waits up to `hold_wait` for money that other open requests of the account hold, or for a credit. A bound
 * that can shrink does so at once, because it is unknown whether waiting would free more. Throws ApiError.
 */
async function holdMoney(scope: CheckedScope, range: AmountRange): Promise<Hold> {
  const { requestId, signal } = scope;
  const owner = { ...payerOf(scope), requestId };
  const holdWait = { waitMs: scope.snapshot.config.billing.holdWaitMs, signal };
  const result = await scope.gateway.holds.takeOrWait(holdWait, owner, range);
  if (result.ok) return result.hold;
  throw moneyError(result);
}

/**
 * Throws ApiError 402 if the account and the key's budget can pay for nothing that the key may use. It comes before the body
 * is read, so that a client without money takes no time of others.
 */
export function refuseWithoutMoney(scope: RequestScope): void {
  const { models, plan } = scope.caller;
  const required = scope.snapshot.catalog.leastCost(models, plan);
  // A free request needs no money.
  if (required === undefined || required === 0n) return;
  const refusal = scope.gateway.holds.refusalOf(payerOf(scope), required);
  if (refusal) throw moneyError(refusal);
}

function payerOf({ caller }: RequestScope): Omit<HoldOwner, "requestId"> {
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
