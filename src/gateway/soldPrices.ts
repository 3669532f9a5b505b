import type { ModelConfig } from "../config/schema.ts";
import type { ShownPrices } from "../contract/models.ts";
import { changesAfter, plannedPricesAt, type SoldPrices } from "../contract/priceList.ts";
import type { Catalog } from "./catalog.ts";
import type { RequestScope } from "./requestScope.ts";

/** What decides which prices a request has. */
type Payer = Pick<RequestScope, "snapshot" | "caller" | "arrivedMs">;

/** The prices of a model for the account of a request, as they are in force when the request arrives. */
export function pricesFor(scope: Payer, { id, schedule }: ModelConfig): SoldPrices {
  if (scope.caller.plan === null && schedule.length === 1) return schedule[0].prices;
  return plannedPricesAt(schedule, planOf(scope)?.get(id), scope.arrivedMs);
}

/** Undefined for an account without a plan, and for a plan that the config does not have. */
function planOf({ caller, snapshot }: Payer): ReturnType<Catalog["plans"]["get"]> {
  return caller.plan === null ? undefined : snapshot.catalog.plans.get(caller.plan);
}

/** The prices of a model that the holder of a key sees: those in force, and the next ones. */
export function shownPricesFor(scope: Payer, model: ModelConfig): ShownPrices {
  const now = pricesFor(scope, model);
  const { arrivedMs } = scope;
  const planned = planOf(scope)?.get(model.id);
  for (const fromMs of changesAfter(model.schedule, planned, arrivedMs)) {
    const prices = plannedPricesAt(model.schedule, planned, fromMs);
    if (prices !== now) return { now, next: { fromMs, prices } };
  }
  return { now, next: undefined };
}
