import { exactList, type DollarList } from "../../config/dollarPrices.ts";
import { byPrice, type ExtraName, type Figure, type PriceName } from "../../contract/figures.ts";
import { marginsOf, type Margin } from "../../contract/margins.ts";
import { serviceTiers, type ServiceTier } from "../../contract/priceList.ts";
import { roundUp, type Decimal } from "../../lib/decimal.ts";

/** A price of a list, and what it was or what another list says. */
export interface PriceChange {
  readonly figure: Figure;
  /** Undefined: the standard one. */
  readonly service: ServiceTier | undefined;
  readonly fromPromptTokens: number;
  /** Undefined: there is no such price. */
  readonly before: Decimal | undefined;
  readonly after: Decimal | undefined;
}

/** Every price that differs, also through what it falls back to. */
export function changesOf(before: DollarList, after: DollarList): readonly PriceChange[] {
  const common = comparedPrices(
    after,
    before,
    (name) => isGiven(before, name) || isGiven(after, name),
  );
  const changed = common.filter(
    ({ sold, cost, service }) => sold !== cost && (!service || before.services[service]),
  );
  return [...changed.map(changeOf), ...additions(before, after)];
}

/** What only one of the lists sells: figures with a price of their own, and service tiers. */
function additions(before: DollarList, after: DollarList): readonly PriceChange[] {
  const extras = byPrice.filter(
    ({ isExtra, price: { name } }) =>
      isExtra && (before.base[name] === undefined) !== (after.base[name] === undefined),
  );
  const rows = extras.map((figure): PriceChange => {
    const { name } = figure.price;
    const [one, other] = [before.base[name], after.base[name]];
    return { figure, service: undefined, fromPromptTokens: 0, before: one, after: other };
  });
  const services = serviceTiers.filter(
    (service) =>
      (before.services[service] === undefined) !== (after.services[service] === undefined),
  );
  return rows.concat(
    services.flatMap((service) =>
      byPrice.flatMap((figure): PriceChange[] => {
        const { name } = figure.price;
        const one = before.services[service]?.base[name];
        const other = after.services[service]?.base[name];
        if (one === undefined && other === undefined) return [];
        return [{ figure, service, fromPromptTokens: 0, before: one, after: other }];
      }),
    ),
  );
}

/** The standard prices that both lists have, and that differ: `before` is that of the first. */
export function disagreementsOf(first: DollarList, second: DollarList): readonly PriceChange[] {
  const inBoth = (name: PriceName): boolean => isGiven(first, name) && isGiven(second, name);
  return comparedPrices(second, { ...first, services: {} }, inBoth)
    .filter(({ sold, cost }) => !isNear(sold, cost))
    .map(changeOf);
}

/** A number of a list may have the noise of a double. */
function isNear(one: bigint, other: bigint): boolean {
  const difference = one > other ? one - other : other - one;
  return difference * 1_000_000_000n <= one;
}

/** Each price of each tier beside the same one of the other list. A later tier is named where it differs from the one before. */
function comparedPrices(
  list: DollarList,
  other: DollarList,
  isShown: (name: PriceName) => boolean,
): readonly Margin[] {
  const sells = Object.fromEntries(
    byPrice.map(({ name, price }) => [
      name,
      isGiven(list, price.name) && isGiven(other, price.name),
    ]),
  ) as Record<ExtraName, boolean>;
  const last = new Map<string, string>();
  return marginsOf({ list: exactList(list), sells, costs: exactList(other) }).filter((margin) => {
    const { figure, service, sold, cost } = margin;
    const key = `${service} ${figure.name}`;
    const amounts = `${sold} ${cost}`;
    const isRepeated = last.get(key) === amounts;
    last.set(key, amounts);
    return !isRepeated && isShown(figure.price.name);
  });
}

function isGiven({ base }: DollarList, name: PriceName): boolean {
  return base[name] !== undefined;
}

function changeOf({ figure, service, fromPromptTokens, sold, cost }: Margin): PriceChange {
  // A price that is missing and falls back to no other is 0.
  const dollars = (digits: bigint) => (digits === 0n ? undefined : { digits, places: 15 });
  return { figure, service, fromPromptTokens, before: dollars(cost), after: dollars(sold) };
}

/** How much the price rises or falls, in percent with one digit. Null: there is no price before or after, or it was 0. */
export function percentOf({ before, after }: PriceChange): number | null {
  if (before === undefined || after === undefined || before.digits === 0n) return null;
  const [one, other] = [roundUp(before, 15), roundUp(after, 15)];
  return Number(((other - one) * 1000n) / one) / 10;
}

/** Whether the price rises or falls by more than so many percent. */
export function isJump({ before, after }: PriceChange, most: Decimal): boolean {
  if (before === undefined || after === undefined) return false;
  const [one, other] = [roundUp(before, 15), roundUp(after, 15)];
  const difference = other > one ? other - one : one - other;
  return difference * 100n * 10n ** BigInt(most.places) > one * most.digits;
}
