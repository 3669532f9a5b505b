import type { CompletionForm } from "../faults/faultAnswers.ts";
import type { RawAnswer } from "../fuzz/answerReader.ts";
import { openConnection, type FuzzConnection } from "../fuzz/connection.ts";
import type { WholeAnswer } from "./charges.ts";
import { bodyOf, chargeOf, planOf, type Outcome, type Plan } from "./plan.ts";

/** The counts and answers of the clients. The checks remove the answers. */
export interface SoakTally {
  begun: number;
  /** Clients that disconnected during their answer. */
  left: number;
  /** Whole answers, as planned, although the first provider failed. */
  failedOver: number;
  readonly outcomes: Record<Outcome, number>;
  readonly whole: WholeAnswer[];
  /** Ids of requests that must be free. */
  readonly unpaid: string[];
  readonly problems: string[];
}

export interface SoakClients {
  readonly gateway: { readonly url: string };
  readonly keys: readonly string[];
  readonly seed: number;
  readonly perSecond: number;
  readonly tally: SoakTally;
  /** Checked before each request: no more are sent once it is true. */
  readonly isOver: () => boolean;
}

const clientsAtOnce = 48;
const answerTimeoutMs = 30_000;
const leaveTimeoutMs = 30_000;
const problemsMax = 50;
const shownChars = 400;

export function newTally(): SoakTally {
  return {
    begun: 0,
    left: 0,
    failedOver: 0,
    outcomes: { whole: 0, broken: 0, "400": 0, "502": 0 },
    whole: [],
    unpaid: [],
    problems: [],
  };
}

/**
 * Sends requests at the given rate, or at the rate that the machine can handle: each client waits for its answer
 * before the next request, and delays are not made up for. Resolves when the last request is answered.
 */
export async function sendSoakLoad(clients: SoakClients): Promise<void> {
  const turn = pace(clients.perSecond);
  await Promise.all(
    Array.from({ length: clientsAtOnce }, () =>
      visitAgainAndAgain(clients, turn).catch((error: unknown) =>
        complain(clients.tally, `a client failed: ${String(error)}`),
      ),
    ),
  );
}

function pace(perSecond: number): () => Promise<void> {
  let nextMs = performance.now();
  return async () => {
    const turnMs = Math.max(nextMs, performance.now());
    nextMs = turnMs + 1000 / perSecond;
    const waitMs = turnMs - performance.now();
    if (waitMs > 0) await Bun.sleep(waitMs);
  };
}

async function visitAgainAndAgain(clients: SoakClients, turn: () => Promise<void>): Promise<void> {
  const { tally, seed, keys, gateway } = clients;
  const port = Number(new URL(gateway.url).port);
  let connection: FuzzConnection | undefined;
  for (await turn(); !clients.isOver() && tally.problems.length < problemsMax; await turn()) {
    const number = tally.begun;
    tally.begun += 1;
    const plan = planOf(seed, number);
    if (connection && plan.isFresh) {
      await disconnect(tally, connection, "fin");
      connection = undefined;
    }
    connection ??= await openConnection(port, () => false);
    connection.send(requestBytes(plan, keys[number % keys.length] ?? ""));
    connection = await finish(tally, plan, connection);
  }
  if (connection) await disconnect(tally, connection, "fin");
}

/** Sends a request and reads the answer; returns the connection if it can be used again. */
async function finish(
  tally: SoakTally,
  plan: Plan,
  connection: FuzzConnection,
): Promise<FuzzConnection | undefined> {
  if (plan.leaving) {
    await Bun.sleep(plan.leaving.afterMs);
    await disconnect(tally, connection, plan.leaving.how);
    tally.left += 1;
    return undefined;
  }
  const answer = await connection.next(answerTimeoutMs);
  if (typeof answer !== "string") {
    look(tally, plan, answer);
    return connection;
  }
  const missing = connection.isAborting ? "the answer is cut" : `${answer}: no answer`;
  complain(tally, `${connection.problem ?? missing}: ${JSON.stringify(plan)}`);
  await connection.disconnect("reset", leaveTimeoutMs);
  return undefined;
}

function look(tally: SoakTally, plan: Plan, { status, headers, body }: RawAnswer): void {
  const text = body.toString();
  const outcome = outcomeOf(plan, status, text);
  const id = headers.get("x-request-id") ?? "";
  if (outcome === undefined || !plan.outcomes.includes(outcome)) {
    const seen = `${status} ${text.slice(0, shownChars)} … ${text.slice(-shownChars)}`;
    complain(tally, `${id}: ${outcome} instead of ${JSON.stringify(plan)}: ${seen}`);
    return;
  }
  tally.outcomes[outcome] += 1;
  if (outcome !== "whole") tally.unpaid.push(id);
  else tally.whole.push({ id, charge: chargeOf(plan.number) });
  if (outcome === "whole" && plan.fault !== undefined) tally.failedOver += 1;
}

/** Undefined for what is none of them. */
function outcomeOf({ form }: Plan, status: number, text: string): Outcome | undefined {
  if (status === 400) return "400";
  if (status === 502) return "502";
  if (status !== 200) return undefined;
  if (endings[form].broken?.test(text)) return "broken";
  if (!endings[form].whole.test(text)) return undefined;
  if (!form.endsWith("stream") && !isJson(text)) return undefined;
  // The last event of a responses stream repeats the whole text. Two providers must not have sent it.
  const greetings = form === "responses stream" ? 2 : 1;
  return text.split("Hello").length - 1 === greetings ? "whole" : undefined;
}

/** The end of a whole answer, and of one that reports a failure. */
const endings: Readonly<
  Record<CompletionForm, { readonly whole: RegExp; readonly broken?: RegExp }>
> = {
  chat: { whole: /"finish_reason":"stop"/ },
  responses: { whole: /"status":"completed"/ },
  "chat stream": {
    whole: /"finish_reason":"stop".*\n\ndata: \[DONE\]\n\n$/,
    broken: /"finish_reason":"error".*\n\ndata: \{"error":.*\n\ndata: \[DONE\]\n\n$/,
  },
  "responses stream": {
    whole: /event: response\.completed\n.*\n\n$/,
    broken: /event: error\n.*\n\n$/,
  },
};

function isJson(text: string): boolean {
  try {
    JSON.parse(text);
    return true;
  } catch {
    return false;
  }
}

async function disconnect(
  tally: SoakTally,
  connection: FuzzConnection,
  how: "fin" | "reset",
): Promise<void> {
  const left = await connection.disconnect(how, leaveTimeoutMs);
  if (left === undefined) complain(tally, `the gateway keeps a connection after a ${how}`);
}

function requestBytes(plan: Plan, key: string): Buffer {
  const path = plan.form.startsWith("chat") ? "chat/completions" : "responses";
  const body = bodyOf(plan);
  return Buffer.from(
    `POST /v1/${path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer ${key}\r\n` +
      `Content-Type: application/json\r\nContent-Length: ${Buffer.byteLength(body)}\r\n\r\n${body}`,
  );
}

function complain(tally: SoakTally, problem: string): void {
  tally.problems.push(problem);
}
