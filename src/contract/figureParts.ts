import {
  figures,
  ofEachFigure,
  type Entry,
  type Figure,
  type FigureName,
  type Price,
  type RareEntry,
  type Usage,
} from "./figures.ts";

// What the gateway and its commands derive from the list of figures. The pages of browsers do without it.

const all: readonly Figure[] = figures;

type SoldFigure = Extract<Entry, { readonly needsPrice: true }>;
export const soldFigures = figures.filter((figure): figure is SoldFigure => "needsPrice" in figure);

/** Zeros of the rare figures, for tables, whose rows have the same columns. */
export const rareZeros = Object.fromEntries(
  all.filter(({ isRare }) => isRare).map(({ field }) => [field, 0]),
) as Record<RareEntry["field"], number>;

/** The figure that it is part of, over all levels; itself if it is part of none. */
const roots = ofEachFigure(({ name }) => {
  let root = name;
  for (let whole = within(root); whole !== undefined; whole = within(root)) root = whole;
  return root;
});

function within(name: FigureName): FigureName | undefined {
  return all.find((figure) => figure.name === name)?.within;
}

export function rootOf(name: FigureName): FigureName {
  return roots[name];
}

/** Figures that are part of no other one, each with its parts of all levels. */
export const families = all
  .filter(({ name }) => roots[name] === name)
  .map((figure) => ({ figure, members: all.filter(({ name }) => roots[name] === figure.name) }));

const nested = all.filter((figure) => figure.within !== undefined);

/** Limits each part to what the parts before it leave of its whole. In the list a whole comes before its parts. */
export function capParts(usage: Usage): Usage {
  const capped: Record<FigureName, number> = { ...usage };
  const rest: Record<FigureName, number> = { ...usage };
  for (const { name, within: whole } of nested) {
    if (whole === undefined || capped[name] === 0) continue;
    const count = Math.min(capped[name], rest[whole]);
    capped[name] = count;
    rest[name] = count;
    rest[whole] -= count;
  }
  return capped;
}

/** What one adds to the price: its own price, less that of the figure that counts it too. */
export function surchargeOf({ price: { name }, within: whole }: Figure, price: Price): bigint {
  const counted = whole === undefined ? undefined : all.find((figure) => figure.name === whole);
  return price[name] - (counted === undefined ? 0n : price[counted.price.name]);
}
