import type { CompletionForm } from "../faults/faultAnswers.ts";
import { requestFor, showsUsage } from "../world/asks.ts";
import { chanceOf, type Chance } from "../seededRandom.ts";
import type { Connection } from "../world/connection.ts";
import { unhinderedTimer } from "../measurement.ts";
import type { AnswerCase } from "./answerCase.ts";
import { shortTimeoutsMs, type AnswersSetup } from "./setup.ts";
import { drawCase } from "./drawCase.ts";

/** More failures in a row would open the circuit breaker. */
const requestsMax = 4;
/** For a provider that makes the gateway wait: the next configs wait for the slowest connection. */
const shortTimeoutRequestsMax = 2;
/** No answer may be this late, except for the time-outs of its provider. */
const hangMs = 5000;
const givenUpMs = 30_000;

/** Runs one client, which sends some requests to one provider, one after the other. */
export async function runConnection(setup: AnswersSetup, _: Chance, number: number): Promise<void> {
  const chance = chanceOf(setup.world.seed ^ connectionSalt, number);
  const { route, model } = await setup.begin(number);
  const connection = await setup.world.connect();
  try {
    const count = route.hasShortTimeouts ? shortTimeoutRequestsMax : requestsMax;
    for (let at = 0; at < count; at += 1) {
      const asked = drawCase({ number: number * requestsMax + at, route, model }, chance);
      const isGood = await ask(setup, connection, asked);
      if (!isGood || asked.isLast) break;
    }
  } finally {
    await connection.disconnect("fin", givenUpMs);
    setup.end(number);
  }
}

/** The requests of a connection are drawn independently of its provider. */
const connectionSalt = 0x5bd1e995;

/** Asks, and judges the answer. False where the connection is of no use any more. */
async function ask(
  setup: AnswersSetup,
  connection: Connection,
  asked: AnswerCase,
): Promise<boolean> {
  const { world } = setup;
  world.count("requests");
  const answered = setup.expect(asked);
  const tookMs = unhinderedTimer([world.gateway.pid, process.pid]);
  connection.send(requestOf(asked, setup.key));
  const answer = await connection.next(givenUpMs);
  const reportProblem = (problem: string, body = ""): void => {
    world.problems.push(
      `seed ${world.seed}, case ${asked.number}: ${problem}\n${shown(asked)}\n  got: ${JSON.stringify(body.slice(0, 3000))}`,
    );
  };
  const times = answered();
  const isLate = tookMs().all > hangMs + (asked.route.hasShortTimeouts ? shortTimeoutsMs : 0);
  if (answer === "late" || isLate) reportProblem("late");
  // With short time-outs the gateway may give up before a busy provider saw the request.
  if (times === 0 && !asked.route.hasShortTimeouts) reportProblem("its provider was not asked");
  if (typeof answer === "string") {
    reportProblem(
      connection.problem ?? (connection.isAborting ? "the answer is cut" : "no answer"),
    );
    return false;
  }
  const { verdict, problems } = setup.judge.judge(asked, answer);
  for (const problem of problems)
    reportProblem(problem, `${answer.status} ${answer.body.toString()}`);
  if (verdict) {
    world.count(`${formOf(asked)}: ${verdict.outcome}`);
    if ((verdict.charge ?? 0n) > 0n) world.count("charged");
    setup.verdicts.push({ asked: `case ${asked.number}`, verdict, model: asked.model });
  }
  return true;
}

function requestOf(asked: AnswerCase, key: string): Buffer {
  const { number, model, endpoint, stream, said } = asked;
  const isShown = stream && asked.showsUsage && endpoint === "chat";
  return requestFor(key, formOf(asked), {
    model,
    prompt: `case ${number} of many`,
    ...(said.choices.length > 1 && { n: said.choices.length }),
    ...(isShown && showsUsage),
  });
}

function formOf({ endpoint, stream }: AnswerCase): CompletionForm {
  return stream ? `${endpoint} stream` : endpoint;
}

function shown({ delivery, route, endpoint, stream, expected }: AnswerCase): string {
  const { bytes, cuts, end } = delivery;
  const what = JSON.stringify({ ...route, endpoint, stream, expected, cuts, end });
  return `  ${what}\n  sent: ${JSON.stringify(bytes.toString("latin1", 0, 4000))}`;
}
