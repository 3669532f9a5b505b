import type { DatabasePlace } from "../auditor/databaseRows.ts";
import { chargedRequests, generatedCost } from "../generation/money.ts";
import type { MeteredProvider } from "../generation/meteredProvider.ts";
import type { Way } from "../generation/ways.ts";
import { quantile } from "../world/growth.ts";
import type { Stage } from "./plan.ts";

/** A request that a client sent. */
export interface SentRequest {
  /** The name of its plan. */
  readonly name: string;
  readonly way: Way;
  readonly stage: Stage;
}

/** A sum over some requests, in nano-roubles. */
export interface MoneyRow {
  readonly what: string;
  readonly requests: number;
  /** The provider's own count at the model's price. */
  readonly generated: bigint;
  readonly charged: bigint;
  /** Of one request: how much more than the provider's count is charged, as a share of it. */
  readonly medianOver: number;
}

export interface Judged {
  /** The sum of all, then the sums by stage, by interface and by model. */
  readonly rows: readonly MoneyRow[];
  /** Charges for requests that no provider got. */
  readonly chargedUnsent: bigint;
}

interface Compared extends SentRequest {
  readonly generated: bigint;
  readonly charged: bigint;
}

/** Compares what was charged with what the providers generated. */
export async function judge(
  place: DatabasePlace,
  sent: readonly SentRequest[],
  providers: readonly MeteredProvider[],
): Promise<Judged> {
  const charges = new Map((await chargedRequests(place)).map((row) => [row.id, row.charge]));
  const generated = new Map<string, bigint>();
  const charged = new Map<string, bigint>();
  for (const one of providers.flatMap((provider) => provider.generated)) {
    generated.set(one.name, (generated.get(one.name) ?? 0n) + generatedCost(one));
    // A second attempt has the same id.
    charged.set(one.name, (charged.get(one.name) ?? 0n) + (charges.get(one.id) ?? 0n));
    charges.delete(one.id);
  }
  const compared = sent.map((request) => ({
    ...request,
    generated: generated.get(request.name) ?? 0n,
    charged: charged.get(request.name) ?? 0n,
  }));
  const left = compared.filter(({ stage }) => stage !== "stays");
  return {
    rows: [
      rowOf("all", compared),
      ...rowsBy(compared, ({ stage }) => stage),
      ...rowsBy(left, ({ way }) => `${way.path} ${way.stream ? "stream" : "json"}`),
      ...rowsBy(left, ({ way }) => way.model),
    ],
    chargedUnsent: charges.values().reduce((sum, charge) => sum + charge, 0n),
  };
}

function rowsBy(all: readonly Compared[], nameOf: (one: Compared) => string): MoneyRow[] {
  const groups = Map.groupBy(all, nameOf);
  return [...groups].map(([what, group]) => rowOf(what, group)).toSorted(byName);
}

function byName(a: MoneyRow, b: MoneyRow): number {
  return a.what < b.what ? -1 : 1;
}

function rowOf(what: string, group: readonly Compared[]): MoneyRow {
  const sum = (of: (one: Compared) => bigint): bigint =>
    group.reduce((all, one) => all + of(one), 0n);
  const shares = group
    .filter(({ generated }) => generated > 0n)
    .map((one) => Number(one.charged) / Number(one.generated) - 1);
  return {
    what,
    requests: group.length,
    generated: sum((one) => one.generated),
    charged: sum((one) => one.charged),
    medianOver: quantile(shares, 0.5),
  };
}
