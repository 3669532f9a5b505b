import type { DatabaseRows, RequestRow } from "./databaseRows.ts";
import { readAnswer, type ReadAnswer } from "./answerText.ts";
import type { ProducedAnswer, SeenAnswer } from "./logs.ts";
import { priceOf } from "./tokens.ts";

/** Attempts that end after content, and are charged for it: the caller or the gateway's own time-out ended them. */
const CHARGED_OUTCOMES: ReadonlySet<string> = new Set([
  "isolated failure",
  "too large",
  "timeout",
  // Charged by the usage that it reports.
  "reported failure",
]);

/** Differences between the database and what clients received. */
export function seenProblems(database: DatabaseRows, seen: readonly SeenAnswer[]): string[] {
  const { requests, ledger, attempts } = database;
  const rows = new Map(requests.map((row) => [row.publicId, row]));
  // A folded request leaves only its charge.
  const refs = new Set(ledger.map(({ ref }) => ref));
  // Their last attempts broke off through no fault of the provider, so they pay for what they got.
  const lastOutcomes = new Map(attempts.map(({ request, outcome }) => [request, outcome]));
  const isolated = new Set(
    [...lastOutcomes].flatMap(([request, outcome]) =>
      CHARGED_OUTCOMES.has(outcome) ? request : [],
    ),
  );
  return seen.flatMap((answer) => {
    const { id, status } = answer;
    const row = rows.get(id);
    if (row !== undefined) return rowProblems(answer, row, isolated.has(row.id));
    if (status !== 200 || refs.has(`req:${id}`)) return [];
    if (answer.isCutByCrash && readAnswer(answer.text).outcome !== "whole") return [];
    return [`a client has an answer to ${id}, and the database has no record of it`];
  });
}

function rowProblems(answer: SeenAnswer, row: RequestRow, isCallerFault: boolean): string[] {
  const { id, costRub, due } = answer;
  const billed = row.charge + row.writeOff;
  const { outcome, tokens }: ReadAnswer =
    answer.status === 200 ? readAnswer(answer.text) : { outcome: "failed", tokens: undefined };
  const isPaid = row.status === "done";
  const rules: readonly (readonly [isBroken: boolean, problem: string])[] = [
    [outcome === "whole" && !isPaid, `a client has all of ${id}, which is ${row.status}`],
    [outcome === "failed" && isPaid, `a client was told that ${id} failed, which is done`],
    [
      outcome === "failed" && answer.isOver && billed > 0n && !(isCallerFault && !isPaid),
      `a client was told that ${id} failed, and pays ${row.charge}`,
    ],
    [
      outcome === "cut" && answer.isOver && isPaid,
      `a client was left without the end of ${id}, which is done`,
    ],
    [
      costRub !== null && nanoOf(costRub) !== row.charge,
      `a client was told that ${id} costs ${costRub}, and pays ${row.charge}`,
    ],
    [due !== undefined && billed !== due, `${id} is billed ${billed}, and ${due} were due`],
  ];
  const problems = rules.flatMap(([isBroken, problem]) => (isBroken ? [problem] : []));
  return outcome === "whole" ? [...problems, ...shownProblems(tokens, row)] : problems;
}

/** The bill is the price of the tokens that the client received, also if they are estimated. */
function shownProblems(tokens: ReadAnswer["tokens"], row: RequestRow): string[] {
  if (tokens === undefined || tokens === "unclear") return [];
  return priceProblem(row, priceOf(tokens, row), "its client was shown");
}

/** Differences between the database and what providers sent. The last provider of a request made its answer. */
export function producedProblems(
  { requests }: DatabaseRows,
  produced: readonly ProducedAnswer[],
): string[] {
  const rows = new Map(requests.map((row) => [row.publicId, row]));
  const last = new Map(produced.map((answer) => [answer.id, answer]));
  return [...last].flatMap(([id, answer]) => {
    const row = rows.get(id);
    return row === undefined ? [] : madeProblems(answer, row);
  });
}

function madeProblems(answer: ProducedAnswer, row: RequestRow): string[] {
  const id = row.publicId;
  const { outcome, tokens } = answer.read();
  const isBilled = row.charge + row.writeOff > 0n;
  if (row.status === "cancelled" && !isBilled && answer.hasBegun)
    return isFree(row, tokens) ? [] : [`${id} is cancelled for nothing, and its provider answered`];
  if (row.status !== "done" && !isBilled) return [];
  if (outcome === "failed" && row.status === "done" && !mayEndEarly(answer, row))
    return [`${id} is done, and its provider failed`];
  if (outcome !== "whole" || tokens === "unclear") return [];
  if (row.estimated !== 0n)
    return tokens !== undefined && row.status === "done"
      ? [`${id} is estimated, and its provider counted its tokens`]
      : [];
  return tokens === undefined
    ? [`${id} is no estimate, and its provider counted nothing`]
    : priceProblem(row, priceOf(tokens, row), "its provider made");
}

/** Even without known tokens a prompt has some. */
function isFree(row: RequestRow, tokens: ReadAnswer["tokens"]): boolean {
  return tokens === undefined || tokens === "unclear"
    ? row.priceInput === 0n
    : priceOf(tokens, row) === 0n;
}

/** In a chat over the responses interface, the gateway itself ends the answer at a stop sequence. */
function mayEndEarly({ requestLine }: ProducedAnswer, { endpoint }: RequestRow): boolean {
  return endpoint === "chat" && requestLine.includes("/responses ");
}

/** Whole answers that no provider was asked for. To be asked only where every provider was listened to. */
export function inventedProblems(
  seen: readonly SeenAnswer[],
  produced: readonly ProducedAnswer[],
): string[] {
  const asked = new Set(produced.map(({ id }) => id));
  return seen
    .filter(({ id, status }) => status === 200 && !asked.has(id))
    .map(({ id }) => `a client has an answer to ${id}, and no provider was asked`);
}

/** What is billed besides tokens and searches is not read from answers here: the tests compare it. */
function priceProblem(row: RequestRow, price: bigint, whose: string): string[] {
  const billed = row.charge + row.writeOff - row.rest;
  return billed === price
    ? []
    : [`${row.publicId} is billed ${billed}, and what ${whose} costs ${price}`];
}

/** Nano-roubles of a decimal text such as `"0.000012"`. */
function nanoOf(roubles: string): bigint {
  const [whole = "", part = ""] = roubles.split(".");
  return BigInt(whole + part.padEnd(9, "0"));
}
