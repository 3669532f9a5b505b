import type { CompletionForm } from "../faults/faultAnswers.ts";
import type { Chance } from "../seededRandom.ts";
import type { RawAnswer } from "../world/answerReader.ts";
import type { Connection } from "../world/connection.ts";
import { chargeOf, planOf, requestOf, type Outcome, type Plan } from "./plan.ts";
import type { SoakSetup } from "./setup.ts";

const perSecond = 200;
const answerTimeoutMs = 30_000;
export const leaveTimeoutMs = 30_000;
const shownChars = 400;

/**
 * One request, on a connection that another one used or on a new one. It comes at the given rate, or at the rate that
 * the machine can handle: delays are not made up for.
 */
export async function useOnce(setup: SoakSetup, _: Chance, number: number): Promise<void> {
  const { world, keys, idle } = setup;
  await turn(setup);
  const plan = planOf(world.seed, number);
  let connection = idle.pop();
  if (connection && plan.isFresh) {
    await disconnect(setup, connection, "fin");
    connection = undefined;
  }
  connection ??= await world.connect();
  connection.send(requestOf(plan, keys[number % keys.length] ?? ""));
  const kept = await finish(setup, plan, connection);
  if (kept) idle.push(kept);
}

async function turn(setup: SoakSetup): Promise<void> {
  const turnMs = Math.max(setup.nextMs, performance.now());
  setup.nextMs = turnMs + 1000 / perSecond;
  const waitMs = turnMs - performance.now();
  if (waitMs > 0) await Bun.sleep(waitMs);
}

/** Sends a request and reads the answer; returns the connection if it can be used again. */
async function finish(
  setup: SoakSetup,
  plan: Plan,
  connection: Connection,
): Promise<Connection | undefined> {
  if (plan.leaving) {
    await Bun.sleep(plan.leaving.afterMs);
    await disconnect(setup, connection, plan.leaving.how);
    setup.world.count("left");
    return undefined;
  }
  const answer = await connection.next(answerTimeoutMs);
  if (typeof answer !== "string") {
    look(setup, plan, answer);
    return connection;
  }
  const missing = connection.isAborting ? "the answer is cut" : `${answer}: no answer`;
  setup.world.problems.push(`${connection.problem ?? missing}: ${JSON.stringify(plan)}`);
  await connection.disconnect("reset", leaveTimeoutMs);
  return undefined;
}

function look(
  { world, whole, unpaid }: SoakSetup,
  plan: Plan,
  { status, headers, body }: RawAnswer,
): void {
  const text = body.toString();
  const outcome = outcomeOf(plan, status, text);
  const id = headers.get("x-request-id") ?? "";
  if (outcome === undefined || !plan.outcomes.includes(outcome)) {
    const seen = `${status} ${text.slice(0, shownChars)} … ${text.slice(-shownChars)}`;
    world.problems.push(`${id}: ${outcome} instead of ${JSON.stringify(plan)}: ${seen}`);
    return;
  }
  world.count(outcome);
  if (outcome !== "whole") unpaid.push(id);
  else whole.push({ id, charge: chargeOf(plan.number) });
  if (outcome === "whole" && plan.fault !== undefined) world.count("failed over");
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
  { world }: SoakSetup,
  connection: Connection,
  how: "fin" | "reset",
): Promise<void> {
  const left = await connection.disconnect(how, leaveTimeoutMs);
  if (left === undefined) world.problems.push(`the gateway keeps a connection after a ${how}`);
}
