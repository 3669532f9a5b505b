import { sendTimed } from "../generation/timedClient.ts";
import type { PlannedAnswer } from "../generation/plannedAnswer.ts";
import { inBothForms, type Way } from "../generation/ways.ts";
import { several } from "../several.ts";
import type { Attack, AttackRun } from "./attack.ts";
import { everyWay, plannedBytes, tokensPerSecond, tookMs, type AttackSetup } from "./setup.ts";
import { asksFor } from "./victim.ts";

/** Attacks that take an answer, or what makes it, and leave before it is paid. */

const chatWays = inBothForms("chat/completions", "gpt");
const chatStream: Way = { path: "chat/completions", model: "gpt", stream: true };
const timeoutMs = 120_000;
/** Each way is left so often. */
const copies = 3;

type Plan = Omit<PlannedAnswer, "name">;

interface LeftAnswer {
  readonly plan: Plan;
  readonly leftAfterMs: number;
  readonly base64?: string;
}

/** The money of a way is shown by this name. */
function nameOf({ path, model, stream }: Way): string {
  return `${path}-over-${model}-${stream ? "stream" : "json"}`;
}

/** Leaves the same answer in every interface. */
function leaves(name: string, { plan, leftAfterMs, base64 }: LeftAnswer): Attack {
  return {
    name,
    gateway: {},
    victim: asksFor(chatWays),
    isPaid: true,
    isAsLongAsItsRequests: true,
    run: async ({ setup }) => {
      await finishSome(setup);
      const leaveOne = async (way: Way): Promise<void> => {
        const named = { name: nameOf(way), ...plan };
        const more = { ...(base64 && { base64, promptEstimate: 100 }) };
        await sendTimed({
          port: setup.port,
          bytes: plannedBytes(setup.attackerKey, way, named, more),
          leaving: { afterMs: leftAfterMs, how: "reset" },
          timeoutMs,
        });
      };
      await Promise.all(everyWay.flatMap((way) => several(copies, () => leaveOne(way))));
    },
  };
}

/** Answers that the other tenant read to their end show the gateway how fast each model is: a short one and a long one. */
const finished: readonly Plan[] = [
  { promptTokens: 200, firstMs: 200, hiddenTokens: 400, visibleTokens: 60 },
  { promptTokens: 200, firstMs: 200, hiddenTokens: 2000, visibleTokens: 400 },
];

async function finishSome({ port, victimKey }: AttackSetup): Promise<void> {
  const finish = (way: Way) => (plan: Plan) =>
    sendTimed({
      port,
      bytes: plannedBytes(victimKey, way, { name: "finished", ...plan }),
      timeoutMs,
    });
  await Promise.all(everyWay.flatMap((way) => finished.map(finish(way))));
}

const REASONING_TOKENS = 10_000;
const ANSWER_TOKENS = 200;
const PADDING_TOKENS = 600;
const PDF_TOKENS = 180_000;
/** Of its text, compressed: a token and a half in four bytes. */
const PDF_BYTES = 270_000;

const reasoned: Plan = {
  promptTokens: 200,
  firstMs: 500,
  hiddenTokens: REASONING_TOKENS,
  visibleTokens: ANSWER_TOKENS + PADDING_TOKENS,
};
/** When the answer that the attacker wants has come. The rest is padding that it asked for. */
const answeredMs = tookMs({ name: "", ...reasoned, visibleTokens: ANSWER_TOKENS });

const LOOPS = 12;

/** Goes through all ways, and leaves after a random time. */
async function leaveInLoops({ setup, random, isOver }: AttackRun): Promise<void> {
  await finishSome(setup);
  let sent = 0;
  const loop = async (): Promise<void> => {
    while (!isOver()) {
      const way = everyWay[sent % everyWay.length] ?? random.pick(everyWay);
      sent += 1;
      const plan: PlannedAnswer = {
        name: nameOf(way),
        promptTokens: 20_000,
        firstMs: 200 + random.below(800),
        hiddenTokens: tokensPerSecond * (2 + random.below(20)),
        visibleTokens: 300 + random.below(500),
      };
      await sendTimed({
        port: setup.port,
        bytes: plannedBytes(setup.attackerKey, way, plan),
        leaving: { afterMs: 100 + random.below(Math.min(5000, tookMs(plan))), how: "reset" },
        timeoutMs,
      });
    }
  };
  await Promise.all(several(LOOPS, loop));
}

/** Prompts so long that the first token comes late, before short answers. */
const taught: PlannedAnswer = {
  name: "taught",
  promptTokens: 60_000,
  firstMs: 6000,
  hiddenTokens: 0,
  visibleTokens: 60,
};
const TAUGHT = 30;

/** Finishes answers that make a model look slow, and leaves others while it reasons. */
async function teachSlowness({ setup }: AttackRun): Promise<void> {
  await finishSome(setup);
  const { port, attackerKey } = setup;
  const teach = (at: number): Promise<unknown> => {
    const way = chatWays[at % chatWays.length] ?? chatStream;
    return sendTimed({ port, bytes: plannedBytes(attackerKey, way, taught), timeoutMs });
  };
  await Promise.all(several(TAUGHT, teach));
  const bytes = plannedBytes(attackerKey, chatStream, { name: "left", ...reasoned });
  const leaving = { afterMs: 20_000, how: "reset" } as const;
  await Promise.all(several(LOOPS, () => sendTimed({ port, bytes, leaving, timeoutMs })));
}

const BEYOND_TOKENS = 900_000;

/** Prompts far above the context that the config names, or that is assumed. */
async function askBeyond({ setup, isOver }: AttackRun): Promise<void> {
  const ways = everyWay.filter(({ stream }) => stream);
  let sent = 0;
  const loop = async (): Promise<void> => {
    while (!isOver()) {
      const way = ways[sent % ways.length];
      if (way === undefined) throw new Error("unreachable");
      sent += 1;
      const plan = {
        name: nameOf(way),
        promptTokens: BEYOND_TOKENS,
        firstMs: 1000,
        hiddenTokens: 0,
        visibleTokens: 100,
      };
      const bytes = plannedBytes(setup.attackerKey, way, plan);
      await sendTimed({ port: setup.port, bytes, timeoutMs });
    }
  };
  await Promise.all(several(2, loop));
}

export const leavingAttacks: readonly Attack[] = [
  leaves("leaves in the tail after 10,000 tokens of reasoning", {
    plan: reasoned,
    leftAfterMs: answeredMs + 300,
  }),
  leaves("leaves in 31 s of silence", { plan: reasoned, leftAfterMs: 31_500 }),
  leaves("leaves after a PDF of 180,000 tokens", {
    plan: {
      promptTokens: PDF_TOKENS,
      firstMs: 1500,
      hiddenTokens: 0,
      visibleTokens: ANSWER_TOKENS + PADDING_TOKENS,
    },
    leftAfterMs: 3000,
    base64: Buffer.alloc(PDF_BYTES, "compressed text of a PDF").toString("base64"),
  }),
  {
    name: "a loop of requests that are left",
    gateway: {},
    victim: asksFor(chatWays),
    isPaid: true,
    run: leaveInLoops,
  },
  {
    name: "teaches a slow speed, then leaves",
    gateway: {},
    victim: asksFor(chatWays),
    isPaid: true,
    isAsLongAsItsRequests: true,
    run: teachSlowness,
  },
  {
    name: "prompts beyond the context",
    gateway: {},
    victim: asksFor(chatWays),
    isPaid: true,
    run: askBeyond,
  },
];
