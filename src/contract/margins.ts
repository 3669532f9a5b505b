import { byPrice, isExtra, type ExtraName, type Figure } from "./figures.ts";
import { serviceTiers, tierOf, type PriceList, type ServiceTier } from "./priceList.ts";

/** The prices of a model beside the costs of one of its routes. */
interface Compared {
  readonly list: PriceList;
  readonly sells: Readonly<Record<ExtraName, boolean>>;
  readonly costs: PriceList;
}

/** One price beside its cost, in nano-roubles of one. */
export interface Margin {
  readonly figure: Figure;
  /** Undefined: the standard one. */
  readonly service: ServiceTier | undefined;
  readonly fromPromptTokens: number;
  readonly sold: bigint;
  readonly cost: bigint;
}

/** Every price of every tier beside the cost of the same tier. Figures that the model does not sell are left out. */
export function marginsOf({ list, sells, costs }: Compared): readonly Margin[] {
  return [undefined, ...serviceTiers].flatMap((service) => {
    if (service !== undefined && !list.services[service]) return [];
    const tiers = [list, costs].flatMap(
      (one) => (service && one.services[service]) ?? one.standard,
    );
    const borders = [...new Set(tiers.map(({ fromPromptTokens }) => fromPromptTokens))];
    return borders
      .toSorted((one, other) => one - other)
      .flatMap((fromPromptTokens) => {
        const sold = tierOf(list, service, fromPromptTokens).price;
        const cost = tierOf(costs, service, fromPromptTokens).price;
        const shown = byPrice.filter(
          (figure) => !isExtra(figure) || sells[figure.name as ExtraName],
        );
        return shown.map((figure) => {
          const { name } = figure.price;
          return { figure, service, fromPromptTokens, sold: sold[name], cost: cost[name] };
        });
      });
  });
}

/**
 * The prices below their cost. A price of 0 is intended. A figure is named once in each service tier: with the first of its
 * tiers by length. A price that falls back to another one, as its cost does, is not named beside that one.
 */
export function lossesOf(compared: Compared): readonly Margin[] {
  const told = new Set<string>();
  const all = marginsOf(compared);
  return all.filter(({ figure, service, fromPromptTokens, sold, cost }) => {
    const key = `${service} ${figure.name}`;
    if (sold === 0n || sold >= cost || told.has(key)) return false;
    const isSame = (other: Margin): boolean =>
      other.figure.price.name === figure.fallback &&
      other.service === service &&
      other.fromPromptTokens === fromPromptTokens &&
      other.sold === sold &&
      other.cost === cost;
    if (all.some(isSame)) return false;
    told.add(key);
    return true;
  });
}

/** In percent of the price, with one digit after the point. Null: the price is 0. */
export function marginPercent(sold: bigint, cost: bigint): number | null {
  return sold === 0n ? null : Number(((sold - cost) * 1000n) / sold) / 10;
}
