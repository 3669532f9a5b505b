import type { AttemptRow, DatabaseRows, RequestRow } from "./databaseRows.ts";
import { priceOf } from "./tokens.ts";

const endings = ["done", "failed", "cancelled", "interrupted"];

/** Problems of the requests and their attempts. */
export function requestProblems({ requests, keys, attempts }: DatabaseRows): string[] {
  const accountOf = new Map(keys.map(({ id, account }) => [id, account]));
  const tries = Map.groupBy(attempts, ({ request }) => request);
  const known = new Set(requests.map(({ id }) => id));
  const lost = attempts.filter(({ request }) => !known.has(request));
  const problems = requests.flatMap((request) =>
    [
      statusProblem(request),
      amountProblem(request),
      writeOffProblem(request),
      savingProblem(request),
      placeProblem(request),
      attemptsProblem(request, tries.get(request.id) ?? []),
      accountOf.get(request.key) === request.account ? undefined : "is by a key of another account",
    ].flatMap((problem) => (problem === undefined ? [] : [`${request.publicId} ${problem}`])),
  );
  return [
    ...problems,
    ...lost.map(
      ({ request, n }) => `attempt ${n} is of request row ${request}, which is not there`,
    ),
  ];
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
  const price = priceOf(request, request) + request.rest;
  const plain = prompt - cached - written;
  if ([charge, writeOff, hold, plain, cached, written, completion].some((one) => one < 0n))
    return "has something less than nothing";
  return charge + writeOff === price
    ? undefined
    : `bills ${charge} and writes off ${writeOff}, and its tokens cost ${price}`;
}

/** What the cache saves is what its tokens except audio cost less than input, by the prices of the request. */
function savingProblem(request: RequestRow): string | undefined {
  const { cacheSaved, cached, cachedAudio, written, hour } = request;
  const { priceInput, priceCached, priceWritten, priceHour } = request;
  const saved =
    (cached - cachedAudio) * (priceInput - priceCached) -
    (written - hour) * (priceWritten - priceInput) -
    hour * (priceHour - priceInput);
  return cacheSaved === null || cacheSaved === saved
    ? undefined
    : `says that its cache saved ${cacheSaved}, and it saved ${saved}`;
}

/** A charge is at most what was available, and an estimate is at most the hold. */
function writeOffProblem({ hold, charge, writeOff, estimated }: RequestRow): string | undefined {
  if (writeOff > 0n && charge < hold)
    return `writes off ${writeOff}, and ${hold} were held for a charge of ${charge}`;
  return estimated !== 0n && charge + writeOff > hold
    ? `is estimated at ${charge + writeOff}, and ${hold} were held`
    : undefined;
}

/** A request has a place in the account's history if, and only if, it moved money. */
function placeProblem(request: RequestRow): string | undefined {
  const { status, charge, seq, balanceAfter } = request;
  return isCharged(request) === (seq !== null) && (seq === null) === (balanceAfter === null)
    ? undefined
    : `is ${status} for ${charge}, and is row ${seq} of its account, which leaves ${balanceAfter}`;
}

/** A single attempt that succeeded needs no row. */
function attemptsProblem(
  { attemptCount }: RequestRow,
  tries: readonly AttemptRow[],
): string | undefined {
  const isCounted =
    (attemptCount === BigInt(tries.length) || (attemptCount === 1n && tries.length === 0)) &&
    tries.every(({ n }, at) => n === BigInt(at + 1));
  return isCounted
    ? undefined
    : `counts ${attemptCount} attempts, and has ${tries.map(({ n }) => n).join() || "none"}`;
}
