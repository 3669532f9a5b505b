import {
  figures,
  historyOf,
  placeOf,
  type DatabaseRows,
  type RequestRow,
  type TotalsRow,
} from "./databaseRows.ts";
import { isCharged } from "./requestRules.ts";

type Figures = Record<(typeof figures)[number], bigint>;
type Group = Pick<TotalsRow, "day" | "account" | "key" | "model" | "provider" | "endpoint">;

const DAY_MS = 86_400_000n;
/** Where the sums of these leave 64 bits they stay at the largest number. */
const INT64_MAX = 9_223_372_036_854_775_807n;
const capped = ["writeOff", "operatorCost", "cacheSaved", "operatorSaved"] as const;
/** These may be less than 0. */
const signed: ReadonlySet<string> = new Set(["cacheSaved", "operatorSaved"]);

/** Problems of the daily totals, compared with the kept requests, the ledger, and the keys' spending. */
export function totalsProblems(database: DatabaseRows): string[] {
  return [...dayProblems(database), ...accountProblems(database), ...keyProblems(database)];
}

/** Each row counts the requests of its group; of a day that is folded in part, at least those that are there. */
function dayProblems({ requests, totals, ledger, retentionStart }: DatabaseRows): string[] {
  const counted = new Map<string, Figures>();
  const refunded = refundsByPlace(ledger);
  for (const request of requests) {
    if (request.status === "running") continue;
    const group = nameOf({
      ...request,
      day: request.at / DAY_MS,
      provider: request.provider ?? "",
    });
    const one = figuresOf(request, refunded.get(placeOf(request)) ?? 0n);
    const sums = counted.get(group);
    if (sums === undefined) counted.set(group, one);
    else for (const name of figures) sums[name] += one[name];
  }
  const problems = totals.flatMap((row) => {
    const name = nameOf(row);
    const sums = counted.get(name);
    counted.delete(name);
    const wrong = figures.filter((figure) => {
      const sum = cappedSum(figure, sums?.[figure] ?? 0n);
      const isPartOnly = row.day * DAY_MS < retentionStart;
      if (isPartOnly && signed.has(figure)) return false;
      return isPartOnly ? row[figure] < sum : row[figure] !== sum;
    });
    return wrong.map(
      (figure) =>
        `the totals of ${name} have ${row[figure]} ${figure}, not ${sums?.[figure] ?? 0n}`,
    );
  });
  return [...problems, ...[...counted.keys()].map((name) => `there are no totals of ${name}`)];
}

/** The totals contain every charge and refund of an account, folded or not. */
function accountProblems(database: DatabaseRows): string[] {
  const { accounts, totals } = database;
  const rows = Map.groupBy(historyOf(database), ({ account }) => account);
  const days = Map.groupBy(totals, ({ account }) => account);
  return accounts.flatMap(({ id, name }) => {
    const own = rows.get(id) ?? [];
    const of = (kind: string): bigint[] =>
      own.filter((row) => row.kind === kind).map(({ amount }) => amount);
    const booked = [BigInt(of("charge").length), -sum(of("charge")), sum(of("refund"))].join(", ");
    const told = (["charged", "charge", "refunded"] as const)
      .map((figure) => sum((days.get(id) ?? []).map((row) => row[figure])))
      .join(", ");
    return booked === told
      ? []
      : [`the history of ${name} has charges and refunds of ${booked}, its totals of ${told}`];
  });
}

/** The first key of a rotation chain has the sum of the chain's charges, less refunds. */
function keyProblems({ keys, totals }: DatabaseRows): string[] {
  const days = Map.groupBy(totals, ({ key }) => key);
  const spent = new Map<bigint, bigint>();
  for (const { id, first } of keys) {
    const own = (days.get(id) ?? []).map(({ charge, refunded }) => charge - refunded);
    const head = first ?? id;
    spent.set(head, (spent.get(head) ?? 0n) + sum(own));
  }
  return keys.flatMap((key) => {
    const due = key.first === null ? (spent.get(key.id) ?? 0n) : 0n;
    return key.spent === due
      ? []
      : [`${key.publicId} is said to have spent ${key.spent}, not ${due}`];
  });
}

function figuresOf(request: RequestRow, refunded: bigint): Figures {
  const { status, operatorCost, prompt, cached, written, hour, completion, searches } = request;
  const isFailed = status === "failed" || status === "interrupted";
  return {
    requests: 1n,
    failed: isFailed ? 1n : 0n,
    charged: isCharged(request) ? 1n : 0n,
    prompt,
    cached,
    written,
    hour,
    completion,
    searches,
    charge: request.charge,
    refunded,
    writeOff: request.writeOff,
    operatorCost: operatorCost ?? 0n,
    cacheSaved: request.cacheSaved ?? 0n,
    operatorSaved: request.operatorSaved ?? 0n,
  };
}

function refundsByPlace(ledger: DatabaseRows["ledger"]): Map<string, bigint> {
  const sums = new Map<string, bigint>();
  for (const { account, refundOf, amount } of ledger) {
    if (refundOf === null) continue;
    const place = placeOf({ account, seq: refundOf });
    sums.set(place, (sums.get(place) ?? 0n) + amount);
  }
  return sums;
}

function cappedSum(figure: (typeof figures)[number], value: bigint): bigint {
  const isCapped = capped.some((name) => name === figure);
  return isCapped && value > INT64_MAX ? INT64_MAX : value;
}

function nameOf({ day, account, key, model, provider, endpoint }: Group): string {
  return `day ${day}, account ${account}, key ${key}, ${endpoint}, ${model} by "${provider}"`;
}

function sum(amounts: readonly bigint[]): bigint {
  return amounts.reduce((total, amount) => total + amount, 0n);
}
