import type { SeenAnswer } from "../auditor/logs.ts";
import { seenOf } from "../gateway/chatCalls.ts";
import { costOf } from "../gateway/gatewayConfig.ts";
import { unhinderedTimer } from "../measurement.ts";
import type { FuzzSetup } from "./setup.ts";
import type { RawAnswer } from "./answerReader.ts";
import { weighed, type Chance } from "./chance.ts";
import { openConnection, type FuzzConnection } from "./connection.ts";
import { isBare, isStream } from "./judge.ts";
import { malformedRequest } from "./malformedRequests.ts";
import { validRequest, type ValidRequest } from "./validRequests.ts";
import { several } from "../several.ts";

/** What was seen so far, by all connections. */
export interface FuzzTally {
  requests: number;
  connections: number;
  /** How often each status came; those of Bun's own begin with `bare`. */
  readonly answers: Record<string, number>;
  /** Connections that the server closed, where it might, before all was answered. */
  unanswered: number;
  /** Answers that cost something and were seen to their end. */
  readonly whole: SeenAnswer[];
  readonly problems: string[];
}

/** Nothing may take longer than this to be answered, on a machine that has time for it. */
const hangMs = 5000;
/** So long is waited where it has not, and for the server to give up a connection. */
const givenUpMs = 30_000;
/** So long the server may wait for the rest of what is not whole, before its client goes. */
const patienceMs = 25;

/** What each answer of the bench's provider costs. */
const due = costOf({ prompt: 20, completion: 7, cached: 5, cacheWrite: 3 });

/** One client, from its connection to its end. What it finds wrong goes to the tally as `name` and the words. */
export async function runConnection(
  setup: FuzzSetup,
  chance: Chance,
  tally: FuzzTally,
  name: string,
): Promise<void> {
  tally.connections += 1;
  const manner = weighed(chance, [
    [9, orderly],
    [3, pipelined],
    [8, rough],
    [3, leaving],
  ] as const);
  const sent: ValidRequest[] = [];
  const connection = await openConnection(setup.port, (index) => sent[index]?.isHead ?? false);
  const complain: Complain = (problem, bytes) => {
    const shown = JSON.stringify(bytes.toString("latin1", 0, 1500));
    tally.problems.push(`${name}, ${manner.name}: ${problem}\n  sent: ${shown}`);
  };
  await manner({ setup, chance, tally, connection, sent, complain });
}

type Complain = (problem: string, bytes: Buffer) => void;

interface ConnectionRun {
  readonly setup: FuzzSetup;
  readonly chance: Chance;
  readonly tally: FuzzTally;
  readonly connection: FuzzConnection;
  /** The sound requests so far, which are answered in their order. */
  readonly sent: ValidRequest[];
  readonly complain: Complain;
}

/** Asks one thing after the other, and waits for each answer. */
async function orderly(run: ConnectionRun): Promise<void> {
  const { chance } = run;
  const isGood = await askInTurn(run, 1 + chance.below(12));
  if (isGood) await disconnect(run, Buffer.alloc(0));
}

/** Asks so many things; false where that was the end of the connection. */
async function askInTurn(run: ConnectionRun, count: number): Promise<boolean> {
  const { setup, complain } = run;
  for (let left = count; left > 0; left -= 1) {
    const request = nextSound(run);
    const bytes = bytesOf(request);
    await sendInPieces(run, bytes);
    const answer = await answerTo(run, bytes);
    if (answer === undefined) return false;
    for (const problem of setup.judge.ofSound(answer, request)) complain(problem, bytes);
    if (!request.isLast) continue;
    const after = await nextInTime(run, bytes);
    if (after !== "closed") complain("the connection does not end as it was asked to", bytes);
    return false;
  }
  return true;
}

/** The next answer or the end, which must not let wait. */
async function nextInTime(
  { setup, connection, complain }: ConnectionRun,
  bytes: Buffer,
): Promise<RawAnswer | "closed" | "late"> {
  const tookMs = unhinderedTimer([setup.gateway.pid, process.pid]);
  const answer = await connection.next(givenUpMs);
  if (answer === "late" || tookMs().all > hangMs)
    complain("late: neither an answer nor the end", bytes);
  return answer;
}

/** Undefined where there is none, which is told. */
async function answerTo(run: ConnectionRun, bytes: Buffer): Promise<RawAnswer | undefined> {
  const { connection, complain } = run;
  const answer = await nextInTime(run, bytes);
  if (typeof answer !== "string") return seen(run, answer);
  const missing = connection.isAborting ? "an answer is cut" : `${answer}: no answer`;
  complain(connection.problem ?? `${missing} to a sound request`, bytes);
  await connection.disconnect("reset", givenUpMs);
  return undefined;
}

/** Asks several things without waiting: they are answered in their order, and Bun may close where one follows a pending one. */
async function pipelined(run: ConnectionRun): Promise<void> {
  const { setup, chance, complain, tally } = run;
  const requests = several(2 + chance.below(5), () => nextSound(run));
  const bytes = Buffer.concat(requests.map(bytesOf));
  await sendInPieces(run, bytes);
  for (const request of requests) {
    const answer = await nextInTime(run, bytes);
    if (answer === "closed") tally.unanswered += 1;
    if (typeof answer === "string") break;
    seen(run, answer);
    for (const problem of setup.judge.ofSound(answer, request)) complain(problem, bytes);
    if (request.isLast) break;
  }
  await disconnect(run, bytes);
}

/** Sends what is no sound HTTP, behind a sound request or two. */
async function rough(run: ConnectionRun): Promise<void> {
  const { setup, chance, connection, complain, tally } = run;
  if (!(await askInTurn(run, chance.below(3)))) return;
  const { bytes, isWhole } = malformedRequest(roughened(run), chance);
  tally.requests += 1;
  await sendInPieces(run, bytes);
  const answer = isWhole ? await nextInTime(run, bytes) : await connection.next(patienceMs);
  if (answer === "closed") tally.unanswered += 1;
  if (typeof answer !== "string") {
    seen(run, answer);
    for (const problem of setup.judge.ofRough(answer)) complain(problem, bytes);
  }
  await disconnect(run, bytes);
}

/** A request to be made rough; none to HEAD, to whose answer nobody could tell whether a body belongs. */
function roughened({ setup, chance }: ConnectionRun): ValidRequest {
  for (;;) {
    const request = validRequest(setup.targets, chance);
    if (!request.isHead) return request;
  }
}

/** Goes while it sends, or before it is answered. */
async function leaving(run: ConnectionRun): Promise<void> {
  const { chance, connection } = run;
  if (!(await askInTurn(run, chance.below(3)))) return;
  const bytes = bytesOf(nextSound(run));
  const isAborting = chance.chance(0.5);
  await sendInPieces(run, isAborting ? bytes.subarray(0, chance.below(bytes.length)) : bytes);
  if (chance.chance(0.7)) await connection.next(chance.below(5));
  await disconnect(run, bytes);
}

function nextSound({ setup, chance, sent, tally }: ConnectionRun): ValidRequest {
  const request = validRequest(setup.targets, chance);
  sent.push(request);
  tally.requests += 1;
  return request;
}

function bytesOf({ head, body }: ValidRequest): Buffer {
  return Buffer.concat([Buffer.from(head, "latin1"), body]);
}

/** In one piece or in several, some of them slow. */
async function sendInPieces({ chance, connection }: ConnectionRun, bytes: Buffer): Promise<void> {
  let at = 0;
  for (let left = chance.chance(0.7) ? 0 : 1 + chance.below(5); left > 0; left -= 1) {
    const end = at + chance.below(bytes.length - at + 1);
    connection.send(bytes.subarray(at, end));
    at = end;
    await Bun.sleep(chance.below(3));
  }
  connection.send(bytes.subarray(at));
}

/** Counts an answer, and remembers one that cost something. */
function seen({ tally }: ConnectionRun, answer: RawAnswer): RawAnswer {
  const { status, headers } = answer;
  const id = headers.get("x-request-id") ?? "";
  const name = `${isBare(answer) ? "bare " : ""}${status}`;
  tally.answers[name] = (tally.answers[name] ?? 0) + 1;
  if (status === 200 && (headers.has("x-tollgate-cost-rub") || isStream(headers)))
    tally.whole.push({ ...seenOf({ id, status, headers, text: answer.body.toString() }), due });
  return answer;
}

/** Goes one way or the other. Whatever came meanwhile must be answers too, of which nobody knows to what. */
async function disconnect(run: ConnectionRun, bytes: Buffer): Promise<void> {
  const { setup, chance, connection, sent, complain } = run;
  const rest = await connection.disconnect(chance.pick(["fin", "fin", "reset"]), givenUpMs);
  if (rest === undefined) complain("the server keeps a connection whose client is gone", bytes);
  for (const { answer, index } of rest ?? []) {
    seen(run, answer);
    const isHead = sent[index]?.isHead ?? false;
    for (const problem of setup.judge.ofRough(answer, isHead)) complain(problem, bytes);
  }
  if (connection.problem !== undefined) complain(connection.problem, bytes);
}
