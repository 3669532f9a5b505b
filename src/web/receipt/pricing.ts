import type { Receipt } from "../../contract/account/receipt.ts";
import type { Model } from "../../contract/models.ts";
import { words } from "../language.ts";
import { priceOf } from "./multiplication.ts";

const { pricing } = words;

/** Why a request has its prices, in one line; empty where it has the first prices of its model. */
export function pricingText(note: Receipt["pricing"]): string {
  if (note === undefined) return "";
  const { plan, service_tier: service, from_prompt_tokens: from, usd_rate: rate } = note;
  return [
    ...(plan === undefined ? [] : [pricing.plan(plan)]),
    ...(service === undefined ? [] : [pricing.service(service)]),
    ...(from === undefined ? [] : [pricing.from(from)]),
    ...(rate === undefined ? [] : [pricing.rate(rate)]),
  ].join(" · ");
}

type Further = Pick<Model, "tiers" | "service_tiers">;
type SomePrices =
  | NonNullable<Further["tiers"]>[number]
  | NonNullable<Further["service_tiers"]>["flex"];

/** The prices of prompt and answer in the other tiers: `from 272001 tokens: 50 / 300`. */
export function furtherPricesText({ tiers, service_tiers: services }: Further): readonly string[] {
  const ofServices = Object.entries(services ?? {}).flatMap(([name, prices]) => {
    const inside = furtherPricesText(prices.tiers ? { tiers: prices.tiers } : {});
    const first = `${pricing.service(name)}: ${pairOf(prices)}`;
    return [first].concat(inside.map((line) => `${pricing.service(name)}, ${line}`));
  });
  const ofLengths = (tiers ?? []).map(
    (tier) => `${pricing.from(tier.from_prompt_tokens)}: ${pairOf(tier)}`,
  );
  return ofLengths.concat(ofServices);
}

function pairOf(prices: SomePrices): string {
  const { rub_input_per_1m: input = 0, rub_output_per_1m: output = 0 } = prices ?? {};
  return `${priceOf(input)} / ${priceOf(output)}`;
}
