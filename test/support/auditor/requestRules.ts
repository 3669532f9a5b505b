import type { AttemptRow, DatabaseRows, LedgerRow, RequestRow } from "./databaseRows.ts";
import { priceOf } from "./tokens.ts";

const endings = ["done", "failed", "cancelled", "interrupted"];

/** Problems of the requests and their rows of the ledger. */
export function requestProblems({ requests, ledger, keys, attempts }: DatabaseRows): string[] {
  const charges = Map.groupBy(ledger, ({ ref }) => ref);
  const accountOf = new Map(keys.map(({ id, account }) => [id, account]));
  const tries = Map.groupBy(attempts, ({ request }) => request);
  return requests.flatMap((request) =>
    [
      statusProblem(request),
      amountProblem(request),
      writeOffProblem(request),
      chargeProblem(request, charges.get(`req:${request.publicId}`) ?? []),
      attemptsProblem(request, tries.get(request.id) ?? []),
      accountOf.get(request.key) === request.account ? undefined : "is by a key of another account",
    ].flatMap((problem) => (problem === undefined ? [] : [`${request.publicId} ${problem}`])),
  );
}

/** Those that should be over. */
export function openProblems({ requests }: DatabaseRows): string[] {
  return requests
    .filter(({ status }) => status === "running")
    .map(({ publicId, hold }) => `${publicId} is running at rest, and holds ${hold}`);
}

/** Whether the request moved money. */
export function isCharged({ status, charge }: RequestRow): boolean {
  return status === "done" || (status === "cancelled" && charge > 0n);
}

function statusProblem({ status, charge, writeOff }: RequestRow): string | undefined {
  if (status !== "running" && !endings.includes(status)) return `has ended as ${status}`;
  const mayBill = status === "done" || status === "cancelled";
  return mayBill || charge + writeOff === 0n ? undefined : `is ${status}, and bills ${charge}`;
}

/** Charge and write-off are the price of the tokens, at the prices of its admission. */
function amountProblem(request: RequestRow): string | undefined {
  const { charge, writeOff, hold, prompt, cached, written, completion } = request;
  const price = priceOf(request, request);
  const plain = prompt - cached - written;
  if ([charge, writeOff, hold, plain, cached, written, completion].some((one) => one < 0n))
    return "has something less than nothing";
  return charge + writeOff === price
    ? undefined
    : `bills ${charge} and writes off ${writeOff}, and its tokens cost ${price}`;
}

/** A charge is at most what was available, and an estimate is at most the hold. */
function writeOffProblem({ hold, charge, writeOff, estimated }: RequestRow): string | undefined {
  if (writeOff > 0n && charge < hold)
    return `writes off ${writeOff}, and ${hold} were held for a charge of ${charge}`;
  return estimated !== 0n && charge + writeOff > hold
    ? `is estimated at ${charge + writeOff}, and ${hold} were held`
    : undefined;
}

function chargeProblem(request: RequestRow, rows: readonly LedgerRow[]): string | undefined {
  const found = rows.map(({ account, amount }) => `${amount} of account ${account}`);
  const due = isCharged(request) ? [`${-request.charge} of account ${request.account}`] : [];
  return found.join() === due.join()
    ? undefined
    : `is ${request.status} for ${request.charge}, and the ledger has ${found.join(" and ") || "nothing"} of it`;
}

function attemptsProblem(
  { attemptCount }: RequestRow,
  tries: readonly AttemptRow[],
): string | undefined {
  const isCounted =
    attemptCount === BigInt(tries.length) && tries.every(({ n }, at) => n === BigInt(at + 1));
  return isCounted
    ? undefined
    : `counts ${attemptCount} attempts, and has ${tries.map(({ n }) => n).join() || "none"}`;
}
