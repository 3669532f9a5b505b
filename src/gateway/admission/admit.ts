import {
  amountRangeOf,
  boundWithin,
  promptTokensMax,
  type AmountRange,
  type TokenLimits,
  type OutputBound,
  type PromptExtent,
} from "../../billing/cost.ts";
import type { FundsReader, Hold } from "../../billing/holds.ts";
import { RequestMeter, type Meter } from "../../billing/meter.ts";
import type { Endpoint } from "../../contract/requestForm.ts";
import {
  balanceHeld,
  insufficientBalance,
  rateLimitExceeded,
  serviceUnavailable,
} from "../../contract/errors.ts";
import { assert } from "../../lib/assert.ts";
import { formatRoubles } from "../../lib/money.ts";
import type { CatalogModel } from "../catalog.ts";
import { CLIENT_STALL_MS } from "../streaming/backpressure.ts";
import { ShuttingDown, StoreBlocked, type Gateway, type RequestContext } from "../gateway.ts";
import type { ModelConfig } from "../../config/schema.ts";
import type { UsageProblem } from "../decoding/answerDecoder.ts";

/** What a checked body asks for, as far as admission decides by it. */
export interface AdmissionRequest {
  endpoint: Endpoint;
  stream: boolean;
  prompt: PromptExtent;
  /** Tokens of the prompt by the estimate, for the token rate. */
  promptEstimate: number;
  /** The caller's bound of one choice's tokens. */
  outputTokensBound: number | undefined;
  choiceCount: number;
}

/** A request whose money is held. From here on its meter must be finished, however it ends. */
export interface Admission {
  meter: Meter;
  tokenLimits: TokenLimits;
  /** The bound of each choice's tokens to send: the caller's own, or what money shrank it to; undefined: none. */
  outputTokensBound: number | undefined;
  /** What was held for each choice. */
  outputTokensMax: number;
  promptEstimate: number;
  /** The most that the model can make of all choices together. */
  modelTokensMax: number;
  warnOfUsage: UsageWarning;
}

/** What a request may take besides its attempts: pauses between them, a commit that has to wait, a client that does not read now. */
const LEAK_TIMEOUT_MS = 60_000 + CLIENT_STALL_MS;

/**
 * Takes the prompt's estimate from the token rate (429) and holds the most that the request can cost
 * (402; 429 if the account's other open requests keep the money for too long). Throws ApiError.
 */
export async function admit(
  gateway: Gateway,
  context: RequestContext,
  model: CatalogModel,
  ask: AdmissionRequest,
): Promise<Admission> {
  const { caller, permit, snapshot } = context;
  const rated = permit.takeTokens(ask.promptEstimate);
  if (!rated.ok) throw rateLimitExceeded(rated.retryAfterMs);

  const { config } = model;
  const promptTokens = promptTokensMax(ask.prompt, config.contextTokens);
  const bound = outputBoundOf(ask, model, snapshot.config.billing.minOutputTokens);
  const range = amountRangeOf(promptTokens, bound, ask.choiceCount, config.price);

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
    ended: (end) => {
      gateway.openMeters.remove(context.requestId);
      gateway.metrics.requestEnded({ ...end, endpoint: ask.endpoint, model: config.id });
    },
    request: {
      publicId: context.requestId,
      at: gateway.clock.epochMs(),
      accountId: caller.accountId,
      keyId: caller.id,
      endpoint: ask.endpoint,
      model: config.id,
      stream: ask.stream,
    },
  });
  gateway.openMeters.add(context.requestId, meter, model.attemptsMsMax + LEAK_TIMEOUT_MS);
  return {
    meter,
    tokenLimits: { promptTokens, completionTokens: outputTokensMax * ask.choiceCount },
    outputTokensBound: isShrunk ? outputTokensMax : ask.outputTokensBound,
    outputTokensMax,
    promptEstimate: ask.promptEstimate,
    modelTokensMax: config.maxOutputTokens * ask.choiceCount,
    warnOfUsage: warnOfUsage(gateway, context.requestId, config),
  };
}

/**
 * A bound that the caller gave stands. Where a chat has none it may shrink, down to what the operator
 * calls the least that is of use; a responses body leaves as it came, so there is no place to say so.
 * Where a provider's bound leaves out the reasoning none is of any use: all that the model may say is held.
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
 * Reading the balance and holding happen in one turn, so that two requests never share money. What is
 * promised to the account's own open requests may come back: that is waited for, and so is a credit. A
 * bound that can shrink does so at once: nobody knows whether waiting would bring more, and what an
 * answer must at least have room for is the operator's to say.
 */
async function holdMoney(
  gateway: Gateway,
  context: RequestContext,
  range: AmountRange,
): Promise<Hold> {
  const { caller, requestId, signal } = context;
  const owner = { accountId: caller.accountId, keyId: caller.firstKeyId, requestId };
  const { keys } = gateway.store;
  const fundsReader: FundsReader = {
    funds() {
      refuseWhileUnwritable(gateway);
      return known(keys.funds(caller.id));
    },
    fundsWithSettled: (requestIds) => known(keys.fundsWithSettled(caller.id, requestIds)),
  };
  const holdWait = { waitMs: context.snapshot.config.billing.holdWaitMs, signal };
  const taken = await gateway.holds.takeOrWait(holdWait, owner, range, fundsReader);
  if (taken.ok) return taken.hold;
  const refuse = taken.reason === "busy" ? balanceHeld : insufficientBalance;
  throw refuse(formatRoubles(taken.required), formatRoubles(taken.available));
}

function known<T>(funds: T | undefined): T {
  assert(funds !== undefined, "a caller without an account");
  return funds;
}

/** While nothing can be written, or the gateway ends, no provider is asked; one small write at a time finds out when it is over. */
function refuseWhileUnwritable(gateway: Gateway): void {
  if (gateway.inFlight.isAborting) throw serviceUnavailable(new ShuttingDown());
  const { blockedBy } = gateway.writer;
  if (blockedBy === undefined) return;
  gateway.writer.probe();
  throw serviceUnavailable(new StoreBlocked(blockedBy));
}

/** Tells of the figures of one request. */
export type UsageWarning = (problem: UsageProblem) => void;

/** A function of its own, for the alarm lives as long as its answer (memory rules: docs/architecture.md). */
function warnOfUsage(gateway: Gateway, requestId: string, { id }: ModelConfig): UsageWarning {
  const fields = { request_id: requestId, model: id };
  return (problem) => {
    if (problem === "implausible") {
      gateway.log.error(
        "the provider reported an impossible usage: the gateway does not charge these figures",
        fields,
      );
    } else if (problem === "fallen") {
      gateway.log.warn("the provider reported less usage than earlier in the same answer", fields);
    } else {
      gateway.log.warn("the provider reported more tokens than the model can produce", fields);
    }
  };
}
