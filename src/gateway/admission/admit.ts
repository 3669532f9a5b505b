import {
  amountRangeOf,
  boundWithin,
  promptLimits,
  type AmountRange,
  type BoundedPrompt,
  type TokenLimits,
  type OutputBound,
  type PromptExtent,
} from "../../billing/cost.ts";
import type { Hold } from "../../billing/hold.ts";
import { recordedPrices, RequestMeter, type Meter } from "../../billing/meter.ts";
import type { Endpoint } from "../../contract/account/requestStatus.ts";
import {
  balanceHeld,
  insufficientBalance,
  rateLimitExceeded,
  serviceUnavailable,
} from "../../contract/errors.ts";
import { formatRoubles } from "../../lib/money.ts";
import { WriteError } from "../../store/store.ts";
import type { CatalogModel } from "../catalog.ts";
import { CLIENT_STALL_MS } from "../streaming/backpressure.ts";
import { ShuttingDown, type Gateway, type RequestContext } from "../gateway.ts";
import type { ModelConfig } from "../../config/schema.ts";
import type { UsageProblem } from "../decoding/answerDecoder.ts";

/** What admission needs to know about a request. */
export interface AdmissionRequest {
  endpoint: Endpoint;
  stream: boolean;
  prompt: PromptExtent | BoundedPrompt;
  /** Estimated prompt tokens, for the token rate. */
  promptEstimate: number;
  /** The caller's bound of tokens for one choice. */
  outputTokensBound: number | undefined;
  choiceCount: number;
}

/** The result of admission. The meter must be settled, however the request ends. */
export interface Admission {
  meter: Meter;
  tokenLimits: TokenLimits;
  /** The bound to send for each choice: the caller's, or a smaller one that the money pays for. Undefined: none. */
  outputTokensBound: number | undefined;
  /** The tokens of each choice that the hold pays for. */
  outputTokensMax: number;
  promptEstimate: number;
  /** The most tokens that the model can generate for all choices together. */
  modelTokensMax: number;
  warnOfUsage: UsageWarning;
}

/** The time of a request besides its attempts: pauses between them, a slow commit, a client that does not read. */
const LEAK_TIMEOUT_MS = 60_000 + CLIENT_STALL_MS;

/**
 * Takes the prompt's estimate from the token rate (429), and holds the most that the request can cost (402; 429 if other
 * open requests of the account hold the money for too long). Throws ApiError.
 */
export async function admit(
  gateway: Gateway,
  context: RequestContext,
  model: CatalogModel,
  ask: AdmissionRequest,
): Promise<Admission> {
  const { caller, permit, snapshot, span } = context;
  const rated = permit.takeTokens(ask.promptEstimate);
  if (!rated.ok) throw rateLimitExceeded(rated.retryAfterMs);

  const { config } = model;
  const limits = promptLimits(ask.prompt, config.contextTokens);
  const bound = outputBoundOf(ask, model, snapshot.config.billing.minOutputTokens);
  const range = amountRangeOf(limits, bound, ask.choiceCount, config.price);

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
    withinMs: model.attemptsMsMax + LEAK_TIMEOUT_MS,
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
    outputTokensBound: isShrunk ? outputTokensMax : ask.outputTokensBound,
    outputTokensMax,
    promptEstimate: ask.promptEstimate,
    modelTokensMax: config.maxOutputTokens * ask.choiceCount,
    warnOfUsage: warnOfUsage(gateway, context.requestId, config),
  };
}

/**
 * A bound of the caller is not changed. A chat without a bound may get one, down to `min_output_tokens`. A responses body
 * is not changed, so it gets none. If a provider's bound excludes reasoning, all that the model can generate is held.
 */
function outputBoundOf(
  ask: AdmissionRequest,
  { config: { maxOutputTokens }, chatCandidates }: CatalogModel,
  minOutputTokens: number,
): OutputBound {
  if (chatCandidates.some(({ provider }) => !provider.config.boundsReasoning)) {
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
  const { caller, requestId, signal } = context;
  const owner = { accountId: caller.accountId, keyId: caller.firstKeyId, requestId };
  const holdWait = { waitMs: context.snapshot.config.billing.holdWaitMs, signal };
  const result = await gateway.holds.takeOrWait(holdWait, owner, range);
  if (result.ok) return result.hold;
  const refuse = result.reason === "busy" ? balanceHeld : insufficientBalance;
  throw refuse(formatRoubles(result.required), formatRoubles(result.available));
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
      gateway.log.error(
        "the provider reported an impossible usage: the gateway does not charge these figures",
        fields,
      );
    } else if (problem === "decreased") {
      gateway.log.warn("the provider reported less usage than earlier in the same answer", fields);
    } else {
      gateway.log.warn("the provider reported more tokens than the model can produce", fields);
    }
  };
}
