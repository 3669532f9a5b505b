import { costsAny } from "../../billing/cost.ts";
import type { ModelConfig } from "../../config/schema.ts";
import type { Endpoint } from "../../contract/account/requestStatus.ts";
import type { ApiError } from "../../contract/errors.ts";
import {
  refusalOfExtra,
  type AskedExtra,
  type AskedExtras,
  type CountedOver,
} from "../../contract/extras.ts";
import { unsoldTier, type AskedTier } from "../../contract/serviceTier.ts";
import type { Candidate } from "../../routing/candidates.ts";
import { withoutRefused, type CatalogModel, type ModelChain } from "../catalog.ts";
import { serviceOf } from "../interfaces.ts";
import type { RequestScope } from "../requestScope.ts";
import { pricesFor } from "../soldPrices.ts";

/** What a request asks for and not every model sells. */
interface Asked {
  readonly extras: readonly AskedExtra[];
  readonly serviceTier: AskedTier;
}

/**
 * The models without the fallbacks that do not sell what the request asks for. `refuse`: the endpoint's own reason. Throws
 * ApiError 400 if the requested model does not sell it: nothing is sent to a provider.
 */
export function modelsThatSell(
  scope: RequestScope,
  endpoint: Endpoint,
  { extras, serviceTier }: Asked,
  models: ModelChain,
  refuse: (model: CatalogModel) => ApiError | undefined = () => undefined,
): ModelChain {
  const { allowedTools } = scope.snapshot.config.api;
  const refusals = models.map(
    (model) =>
      unsoldTier(pricesFor(scope, model.config), serviceTier, allowedTools) ??
      refuse(model) ??
      unsoldExtra(scope, endpoint, model, extras),
  );
  return withoutRefused(models, refusals);
}

function unsoldExtra(
  scope: RequestScope,
  endpoint: Endpoint,
  { config, chatCandidates }: CatalogModel,
  extras: readonly AskedExtra[],
): ApiError | undefined {
  for (const extra of extras) {
    // Where the specification names the tool, it passes, and its price is charged if there is one.
    if (extra.passes && endpoint !== "messages") continue;
    const interfaces = chatCandidates.flatMap((candidate) => {
      const one = interfaceOf(endpoint, candidate, extra);
      const isBilled = one !== undefined && extra.billedOver?.includes(one) !== false;
      return isBilled ? [one] : [];
    });
    const refusal = refusalOfExtra(extra, pricesFor(scope, config).sells, interfaces);
    if (refusal) return refusal;
  }
  return undefined;
}

/**
 * The interface of the provider that would get the extra. Undefined if none would: a request that is written for another
 * interface has none of the tools that a provider runs, and adapters refuse what they cannot write.
 */
function interfaceOf(
  endpoint: Endpoint,
  candidate: Candidate,
  { isTool, over }: AskedExtra,
): CountedOver | undefined {
  const { kind } = candidate.provider.config;
  const isNative = serviceOf(endpoint, candidate) === "native";
  if (isNative && endpoint === "responses") return "responses";
  if (isNative && endpoint === "messages") return "messages";
  if (isTool && endpoint !== "chat") return undefined;
  if (kind === "openai") return candidate.route.api;
  // Google's own tools are the only ones that its adapter writes.
  return kind === "gemini" && (!isTool || over.includes("gemini")) ? "gemini" : undefined;
}

/** Undefined if the client's own maximum is sent to all models. */
export function toolCallsMaxima(
  scope: RequestScope,
  tools: Pick<AskedExtras, "most" | "toolCallsMax">,
  models: ModelChain,
): ReadonlyMap<ModelConfig, number> | undefined {
  if (tools.toolCallsMax === undefined) return undefined;
  const maxima = models.flatMap(({ config }) => {
    const most = toolCallsMaxOf(scope, tools, config);
    return most === undefined ? [] : [[config, most] as const];
  });
  return new Map(maxima);
}

/**
 * The maximum of calls to send, where the model has prices for what the tools use: so the provider cannot exceed the hold.
 * Undefined: the client's own is sent, or none.
 */
export function toolCallsMaxOf(
  scope: RequestScope,
  { most, toolCallsMax }: Pick<AskedExtras, "most" | "toolCallsMax">,
  model: ModelConfig,
): number | undefined {
  if (toolCallsMax === undefined) return undefined;
  const [{ price }] = pricesFor(scope, model).standard;
  return costsAny(most, price) ? toolCallsMax : undefined;
}
