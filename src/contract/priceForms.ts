import { Type, type Static } from "@sinclair/typebox";
import { priceFields, tokens } from "./answerFields.ts";
import {
  byPrice,
  isExtra,
  pricesOf,
  type ExtraName,
  type Price,
  type PriceField,
} from "./figures.ts";
import { serviceTiers, type PriceList, type PriceTiers, type SoldPrices } from "./priceList.ts";

const somePrices = Type.Partial(Type.Object(priceFields));

const Tier = Type.Composite([
  Type.Object({
    from_prompt_tokens: tokens("The prices of requests whose prompt has this many tokens or more."),
  }),
  somePrices,
]);

const tiers = Type.Optional(
  Type.Array(Tier, {
    description:
      "Prices by the length of the prompt, ascending. The whole request is charged at the tier of its prompt. Absent if there are none.",
  }),
);

const ServicePrices = Type.Composite([somePrices, Type.Object({ tiers })]);

/** The prices of a model beyond its first ones. */
export const furtherPrices = {
  tiers,
  service_tiers: Type.Optional(
    Type.Partial(
      Type.Object(
        Object.fromEntries(serviceTiers.map((name) => [name, ServicePrices])) as Record<
          (typeof serviceTiers)[number],
          typeof ServicePrices
        >,
      ),
      {
        description:
          "Prices of the service tiers that a request may ask for (`service_tier`, and `speed` for `fast`). The tier of the answer is charged. Absent if there are none.",
      },
    ),
  ),
};

type FurtherPrices = {
  tiers?: Static<typeof Tier>[];
  service_tiers?: { [Name in (typeof serviceTiers)[number]]?: Static<typeof ServicePrices> };
};

/** The tiers of a list, with the figures that the model sells. */
export function furtherPricesOf(list: PriceList, sells: SoldPrices["sells"]): FurtherPrices {
  const services = serviceTiers.flatMap((name) => {
    const ofService = list.services[name];
    if (ofService === undefined) return [];
    const form = { ...soldPricesOf(ofService[0].price, sells), ...tiersOf(ofService, sells) };
    return [[name, form] as const];
  });
  return {
    ...tiersOf(list.standard, sells),
    ...(services.length > 0 && { service_tiers: Object.fromEntries(services) }),
  };
}

function tiersOf(
  [, ...later]: PriceTiers,
  sells: SoldPrices["sells"],
): Pick<FurtherPrices, "tiers"> {
  if (later.length === 0) return {};
  return {
    tiers: later.map(({ fromPromptTokens, price }) => ({
      from_prompt_tokens: fromPromptTokens,
      ...soldPricesOf(price, sells),
    })),
  };
}

/** The prices of the figures that a model sells. */
export function soldPricesOf(
  price: Price,
  sells: SoldPrices["sells"],
): Partial<Record<PriceField, number>> {
  const all = pricesOf(price);
  const sold = byPrice.filter((figure) => !isExtra(figure) || sells[figure.name as ExtraName]);
  return Object.fromEntries(sold.map(({ price: { key } }) => [key, all[key]]));
}
