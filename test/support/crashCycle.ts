import { formatRoubles } from "../../src/lib/money.ts";
import { costOf } from "./gatewayConfig.ts";
import type { GatewayProcess, RequestRecord } from "./gatewayProcess.ts";

export interface CrashCycle {
  /** Requests that were begun. */
  readonly begun: number;
  /** Answers that a client saw whole, before the gateway was killed or in spite of it. */
  readonly whole: number;
  /** Credits that a command said were booked. */
  readonly credits: number;
  /** Everything that is wrong with the books after the restart. */
  readonly problems: readonly string[];
}

/** An answer that was whole: its request, and the price of the usage that it reported. */
interface WholeAnswer {
  readonly id: string;
  readonly charge: string;
}

/** What the cycle needs to know of a line of the ledger. */
interface Booking {
  readonly kind: string;
  readonly ref: string | null;
  readonly amount_rub: string;
  readonly request_id: string | null;
}

type Usage = Readonly<Record<string, number | undefined>>;

const requestsPerCycle = 50;
const requestsAtOnce = 16;
const listedMax = 1000;
const question = "Tell me something about tolls.";

/** Four ways to ask; `read` gives the usage of an answer that came whole. */
const ways = [
  { path: "chat/completions", stream: false, read: usageOfJson },
  { path: "chat/completions", stream: true, read: usageOfChatStream },
  { path: "responses", stream: false, read: usageOfJson },
  { path: "responses", stream: true, read: usageOfResponsesStream },
] as const;

/**
 * Kills the gateway once `killAfter` of 50 mixed requests were answered whole, while credits are booked beside
 * it, starts it again, and compares what the clients saw with what the books say. `name` must be new.
 */
export async function runCrashCycle(
  gateway: GatewayProcess,
  payer: { readonly account: string; readonly key: string },
  cycle: { readonly name: string; readonly killAfter: number },
): Promise<CrashCycle> {
  const whole: WholeAnswer[] = [];
  let isOver = false;
  let begun = 0;
  const visit = async (): Promise<void> => {
    while (begun < requestsPerCycle && !isOver) {
      const way = ways[begun++ % ways.length];
      const answer = way && (await ask(gateway.url, payer.key, way));
      if (answer) whole.push(answer);
      if (whole.length < cycle.killAfter || isOver) continue;
      isOver = true;
      await gateway.kill();
    }
  };
  const visitors = Promise.all(Array.from({ length: requestsAtOnce }, visit));
  const credits = bookCredits(gateway, payer.account, cycle.name, () => isOver);
  await visitors;
  if (!isOver) await gateway.kill();
  isOver = true;
  const refs = await credits;
  await gateway.start();
  const problems = await compare(gateway, payer.account, whole, refs);
  return { begun, whole: whole.length, credits: refs.length, problems };
}

/** Books credits one after the other; returns the refs of those that were acknowledged. */
async function bookCredits(
  { desk }: GatewayProcess,
  account: string,
  name: string,
  isOver: () => boolean,
): Promise<string[]> {
  const refs: string[] = [];
  do {
    const ref = `${name}-${refs.length}`;
    await desk.json("balance", "credit", account, "0.001", "--ref", ref);
    refs.push(ref);
  } while (!isOver());
  return refs;
}

async function ask(
  url: string,
  key: string,
  way: (typeof ways)[number],
): Promise<WholeAnswer | undefined> {
  const body = {
    model: "small",
    stream: way.stream,
    ...(way.path === "responses"
      ? { input: question }
      : { messages: [{ role: "user", content: question }] }),
    ...(way.path === "chat/completions" && way.stream
      ? { stream_options: { include_usage: true } }
      : {}),
  };
  let id = "";
  let text = "";
  try {
    const response = await fetch(`${url}/v1/${way.path}`, {
      method: "POST",
      headers: { authorization: `Bearer ${key}` },
      body: JSON.stringify(body),
    });
    id = response.headers.get("x-request-id") ?? "";
    const decoder = new TextDecoder();
    for await (const bytes of response.body ?? []) text += decoder.decode(bytes, { stream: true });
    if (response.status !== 200) throw new Error(`refused with ${response.status}: ${text}`);
  } catch (error) {
    if (error instanceof Error && error.message.startsWith("refused")) throw error;
    // The gateway is gone. What came until then may still have been a whole answer.
  }
  const usage = way.read(text);
  return usage && { id, charge: formatRoubles(priceOf(usage)) };
}

function priceOf(usage: Usage): bigint {
  const prompt = usage["prompt_tokens"] ?? usage["input_tokens"] ?? NaN;
  return costOf({
    prompt,
    completion: usage["completion_tokens"] ?? usage["output_tokens"] ?? NaN,
  });
}

function usageOfJson(text: string): Usage | undefined {
  try {
    return (JSON.parse(text) as { usage: Usage }).usage;
  } catch {
    return undefined;
  }
}

function usageOfChatStream(text: string): Usage | undefined {
  if (!text.includes("data: [DONE]\n\n")) return undefined;
  const [last] = text.split("\n\n").slice(-3);
  return usageOfJson(last?.slice("data: ".length) ?? "");
}

function usageOfResponsesStream(text: string): Usage | undefined {
  const end = /event: response\.completed\ndata: (.*)\n\n/.exec(text)?.[1];
  return end === undefined
    ? undefined
    : (JSON.parse(end) as { response: { usage: Usage } }).response.usage;
}

async function compare(
  gateway: GatewayProcess,
  account: string,
  whole: readonly WholeAnswer[],
  refs: readonly string[],
): Promise<string[]> {
  const list = ["--limit", String(listedMax)];
  const records = (await gateway.desk.json("requests", ...list)) as RequestRecord[];
  const bookings = (await gateway.desk.json("balance", "history", account, ...list)) as Booking[];
  const problems: string[] = [];
  for (const { id, charge } of whole) {
    const record = records.find((one) => one.id === id);
    if (record?.status !== "done" || record.cost_rub !== charge || record.estimated)
      problems.push(`a client saw all of ${id} for ${charge}: ${JSON.stringify(record)}`);
    const charges = bookings.filter((one) => one.request_id === id);
    if (charges.length !== 1 || charges[0]?.amount_rub !== `-${charge}`)
      problems.push(`${id} was to be charged ${charge} once: ${JSON.stringify(charges)}`);
  }
  for (const ref of refs) {
    const credits = bookings.filter((one) => one.ref === ref);
    if (credits.length !== 1) problems.push(`credit ${ref} stands ${credits.length} times`);
  }
  await gateway.checkBooks().catch((error: unknown) => problems.push(String(error)));
  return problems;
}
