import type { Config, ModelConfig, RouteConfig } from "../../config/schema.ts";
import type { DollarList } from "../../config/dollarPrices.ts";
import { providersNamed } from "../../config/providers.ts";
import { soldOver } from "./listFigures.ts";
import { readListedModel } from "./listedModel.ts";
import type { ListEntry } from "./litellmList.ts";
import type { SecondList } from "./secondList.ts";
import { vendorAt, vendorNamed, type Vendor } from "./vendors.ts";

/** The lists, and how the vendor of a provider is found. */
export interface Lists {
  readonly first: readonly ListEntry[];
  readonly second: SecondList | undefined;
  /** The vendors that the command line names, by the id of the provider. */
  readonly vendors: ReadonlyMap<string, string>;
}

/** What the lists say of a route. */
export interface ListedRoute {
  readonly route: RouteConfig;
  readonly listName: string;
  readonly prices: DollarList;
  /** Undefined: the second list does not have it. */
  readonly second: DollarList | undefined;
  readonly notes: readonly string[];
}

/** The routes that the list has, the one with the lowest priority first. */
export interface ListedRoutes {
  readonly found: readonly ListedRoute[];
  /** Why there is none. */
  readonly reason: string;
}

/** Finds a model by the vendors of its providers and their names for it. */
export function listedRoutes(
  model: ModelConfig,
  { providers }: Pick<Config, "providers">,
  lists: Lists,
): ListedRoutes {
  const found: ListedRoute[] = [];
  const reasons: string[] = [];
  for (const route of model.routes.toSorted((one, other) => one.priority - other.priority)) {
    const [provider] = providersNamed(providers, route.provider);
    if (provider === undefined) continue;
    const named = lists.vendors.get(provider.provider);
    const vendor = named === undefined ? vendorAt(provider.baseUrl) : vendorNamed(named);
    if (vendor === undefined) {
      reasons.push(
        `the vendor of ${provider.provider} is not known: name it with --vendor ${provider.provider}=NAME`,
      );
      continue;
    }
    const listed = listedRoute(route, { model, kind: provider.kind, vendor }, lists);
    if ("reason" in listed) reasons.push(listed.reason);
    else found.push(listed);
  }
  return { found, reason: reasons[0] ?? "it has no route" };
}

function listedRoute(
  route: RouteConfig,
  {
    model,
    kind,
    vendor,
  }: {
    readonly model: ModelConfig;
    readonly kind: Config["providers"][number]["kind"];
    readonly vendor: Vendor;
  },
  { first, second }: Lists,
): ListedRoute | { readonly reason: string } {
  const entry = first.find(
    (one) => one.provider === vendor.litellm && [one.model, one.name].includes(route.model),
  );
  if (entry === undefined) return { reason: `the list has no ${route.model} of ${vendor.litellm}` };
  const listed = readListedModel(entry);
  if ("reason" in listed) return { reason: `${entry.name} of the list: ${listed.reason}` };
  if (listed.kind !== model.kind)
    return { reason: `${entry.name} of the list is of the kind ${listed.kind}` };
  const served = { kind, responses: route.responses || route.api === "responses" };
  const { list } = soldOver(listed.prices, served);
  if (Object.values(list.base).some(({ digits }) => digits === 0n))
    return { reason: `${entry.name} of the list costs nothing: write free = true at the model` };
  return {
    route,
    listName: entry.name,
    prices: list,
    second: vendor.genai === undefined ? undefined : second?.(vendor.genai, route.model),
    notes: listed.notes,
  };
}
