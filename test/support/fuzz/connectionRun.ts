import { seenOf } from "../gateway/chatCalls.ts";
import { costOf } from "../gateway/gatewayConfig.ts";
import { unhinderedTimer } from "../measurement.ts";
import type { FuzzSetup } from "./setup.ts";
import type { RawAnswer } from "../world/answerReader.ts";
import { weighed, type Chance } from "../seededRandom.ts";
import type { Connection } from "../world/connection.ts";
import { isBare, isStream } from "./judge.ts";
import { malformedRequest } from "./malformedRequests.ts";
import { validRequest, type ValidRequest } from "./validRequests.ts";
import { several } from "../several.ts";

/** The longest time for an answer on an idle machine. */
const hangMs = 5000;
/** The longest wait on a busy machine, and for the server to close a connection. */
const givenUpMs = 30_000;
/** How long the client waits with an incomplete request before it disconnects. */
const patienceMs = 25;

/** The cost of each answer of the provider. */
const due = costOf({ prompt: 20, completion: 7, cached: 5, cacheWrite: 3 });

/** Runs one client, from its connection to its end. */
export async function runConnection(
  setup: FuzzSetup,
  chance: Chance,
  number: number,
): Promise<void> {
  const { world } = setup;
  const manner = weighed(chance, [
    [9, sendInTurn],
    [3, sendPipelined],
    [8, sendMalformed],
    [3, disconnectEarly],
  ] as const);
  const sent: ValidRequest[] = [];
  const connection = await world.connect((index) => sent[index]?.isHead ?? false);
  const reportProblem: ReportProblem = (problem, bytes) => {
    const shown = JSON.stringify(bytes.toString("latin1", 0, 1500));
    const name = `seed ${world.seed}, connection ${number}, ${manner.name}`;
    world.problems.push(`${name}: ${problem}\n  sent: ${shown}`);
  };
  await manner({ setup, chance, connection, sent, reportProblem });
}

type ReportProblem = (problem: string, bytes: Buffer) => void;

interface ConnectionRun {
  readonly setup: FuzzSetup;
  readonly chance: Chance;
  readonly connection: Connection;
  /** The valid requests so far, which are answered in this order. */
  readonly sent: ValidRequest[];
  readonly reportProblem: ReportProblem;
}

/** Sends one request after the other, and waits for each answer. */
async function sendInTurn(run: ConnectionRun): Promise<void> {
  const { chance } = run;
  const isGood = await requestInTurn(run, 1 + chance.below(12));
  if (isGood) await disconnect(run, Buffer.alloc(0));
}

/** Sends `count` requests; false if the connection ended. */
async function requestInTurn(run: ConnectionRun, count: number): Promise<boolean> {
  const { setup, reportProblem } = run;
  for (let left = count; left > 0; left -= 1) {
    const request = nextValidRequest(run);
    const bytes = bytesOf(request);
    await sendInPieces(run, bytes);
    const answer = await answerTo(run, bytes);
    if (answer === undefined) return false;
    for (const problem of setup.judge.problemsOfValid(answer, request))
      reportProblem(problem, bytes);
    if (!request.isLast) continue;
    const after = await nextInTime(run, bytes);
    if (after !== "closed") reportProblem("the connection does not end as it was asked to", bytes);
    return false;
  }
  return true;
}

/** The next answer or the close. Reports one that is late. */
async function nextInTime(
  { setup, connection, reportProblem }: ConnectionRun,
  bytes: Buffer,
): Promise<RawAnswer | "closed" | "late"> {
  const tookMs = unhinderedTimer([setup.world.gateway.pid, process.pid]);
  const answer = await connection.next(givenUpMs);
  if (answer === "late" || tookMs().all > hangMs)
    reportProblem("late: neither an answer nor the end", bytes);
  return answer;
}

/** Reports a missing answer as a problem and returns undefined. */
async function answerTo(run: ConnectionRun, bytes: Buffer): Promise<RawAnswer | undefined> {
  const { connection, reportProblem } = run;
  const answer = await nextInTime(run, bytes);
  if (typeof answer !== "string") return seen(run, answer);
  const missing = connection.isAborting ? "an answer is cut" : `${answer}: no answer`;
  reportProblem(connection.problem ?? `${missing} to a sound request`, bytes);
  await connection.disconnect("reset", givenUpMs);
  return undefined;
}

/** Pipelines several requests: they are answered in order, and Bun may close where one follows a pending one. */
async function sendPipelined(run: ConnectionRun): Promise<void> {
  const { setup, chance, reportProblem } = run;
  const requests = several(2 + chance.below(5), () => nextValidRequest(run));
  const bytes = Buffer.concat(requests.map(bytesOf));
  await sendInPieces(run, bytes);
  for (const request of requests) {
    const answer = await nextInTime(run, bytes);
    if (answer === "closed") setup.world.count("unanswered");
    if (typeof answer === "string") break;
    seen(run, answer);
    for (const problem of setup.judge.problemsOfValid(answer, request))
      reportProblem(problem, bytes);
    if (request.isLast) break;
  }
  await disconnect(run, bytes);
}

/** Sends a malformed request after up to two valid ones. */
async function sendMalformed(run: ConnectionRun): Promise<void> {
  const { setup, chance, connection, reportProblem } = run;
  if (!(await requestInTurn(run, chance.below(3)))) return;
  const { bytes, isWhole } = malformedRequest(requestToMalform(run), chance);
  setup.world.count("requests");
  await sendInPieces(run, bytes);
  const answer = isWhole ? await nextInTime(run, bytes) : await connection.next(patienceMs);
  if (answer === "closed") setup.world.count("unanswered");
  if (typeof answer !== "string") {
    seen(run, answer);
    for (const problem of setup.judge.problemsOfMalformed(answer)) reportProblem(problem, bytes);
  }
  await disconnect(run, bytes);
}

/** A request to be made malformed; not a HEAD, whose answer may or may not have a body. */
function requestToMalform({ setup, chance }: ConnectionRun): ValidRequest {
  for (;;) {
    const request = validRequest(setup.targets, chance);
    if (!request.isHead) return request;
  }
}

/** Disconnects while it sends, or before the answer. */
async function disconnectEarly(run: ConnectionRun): Promise<void> {
  const { chance, connection } = run;
  if (!(await requestInTurn(run, chance.below(3)))) return;
  const bytes = bytesOf(nextValidRequest(run));
  const isAborting = chance.chance(0.5);
  await sendInPieces(run, isAborting ? bytes.subarray(0, chance.below(bytes.length)) : bytes);
  if (chance.chance(0.7)) await connection.next(chance.below(5));
  await disconnect(run, bytes);
}

function nextValidRequest({ setup, chance, sent }: ConnectionRun): ValidRequest {
  const request = validRequest(setup.targets, chance);
  sent.push(request);
  setup.world.count("requests");
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

/** Counts an answer, and records it if it cost something. */
function seen({ setup: { world } }: ConnectionRun, answer: RawAnswer): RawAnswer {
  const { status, headers } = answer;
  const id = headers.get("x-request-id") ?? "";
  const name = `${isBare(answer) ? "bare " : ""}${status}`;
  world.count(name);
  if (status === 200 && (headers.has("x-tollgate-cost-rub") || isStream(headers))) {
    world.count("charged");
    const reply = { id, status, headers, text: answer.body.toString() };
    world.gateway.auditor.seen.push({ ...seenOf(reply), due });
  }
  return answer;
}

/** Disconnects. All bytes that arrived meanwhile must be answers, to whichever request. */
async function disconnect(run: ConnectionRun, bytes: Buffer): Promise<void> {
  const { setup, chance, connection, sent, reportProblem } = run;
  const rest = await connection.disconnect(chance.pick(["fin", "fin", "reset"]), givenUpMs);
  if (rest === undefined)
    reportProblem("the server keeps a connection whose client is gone", bytes);
  for (const { answer, index } of rest ?? []) {
    seen(run, answer);
    const isHead = sent[index]?.isHead ?? false;
    for (const problem of setup.judge.problemsOfMalformed(answer, isHead))
      reportProblem(problem, bytes);
  }
  if (connection.problem !== undefined) reportProblem(connection.problem, bytes);
}
