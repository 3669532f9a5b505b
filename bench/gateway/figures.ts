/** All that was measured: for each kind of figure and each contestant one number a round. */
export class Figures {
  readonly #values = new Map<string, Map<string, number[]>>();

  /** Adds what a round has found. Kinds are named like "json 64"; their units are the reader's to know. */
  add(kind: string, contestant: string, value: number): void {
    let ofKind = this.#values.get(kind);
    if (!ofKind) this.#values.set(kind, (ofKind = new Map()));
    const rounds = ofKind.get(contestant);
    if (rounds) rounds.push(value);
    else ofKind.set(contestant, [value]);
  }

  rounds(kind: string, contestant: string): readonly number[] {
    return this.#values.get(kind)?.get(contestant) ?? [];
  }

  /** The median of the rounds; undefined where nothing was measured. */
  median(kind: string, contestant: string): number | undefined {
    return quantile(this.rounds(kind, contestant), 0.5);
  }

  /** The median of the rounds' ratios: what changes between rounds cancels out. */
  ratio(one: readonly [string, string], other: readonly [string, string]): number | undefined {
    const below = this.rounds(...other);
    const ratios = this.rounds(...one).flatMap((value, round) => {
      const under = below[round];
      return under === undefined ? [] : [value / under];
    });
    return quantile(ratios, 0.5);
  }

  toJSON(): object {
    return Object.fromEntries(
      [...this.#values].map(([kind, ofKind]) => [kind, Object.fromEntries(ofKind)]),
    );
  }
}

/** The interpolated quantile, `part` from 0 to 1; undefined for no values. */
export function quantile(values: readonly number[], part: number): number | undefined {
  const sorted = values.toSorted((a, b) => a - b);
  const at = (sorted.length - 1) * part;
  const low = sorted[Math.floor(at)];
  const high = sorted[Math.ceil(at)];
  return low === undefined || high === undefined ? undefined : low + (high - low) * (at % 1);
}
