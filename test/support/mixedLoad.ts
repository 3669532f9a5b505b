import { costOf } from "./gatewayConfig.ts";

/** An answer that a client saw whole: its request, and the price of the usage that it reported, in nano-roubles. */
export interface WholeAnswer {
  readonly id: string;
  readonly charge: bigint;
}

export interface MixedLoad {
  readonly requests: number;
  readonly atOnce: number;
  /** Asked before each request: no more are begun once it is true. */
  isOver(): boolean;
  /** Hears of each whole answer; the client that saw it waits. */
  seen(answer: WholeAnswer): Promise<void> | void;
}

/** What clients saw of a load. A request that got no answer at all is none of the two. */
export interface LoadSeen {
  readonly begun: number;
  readonly whole: readonly WholeAnswer[];
  /** The statuses of what was refused. */
  readonly refusals: readonly number[];
}

type Usage = Readonly<Record<string, number | undefined>>;

const question = "Tell me something about tolls.";

/** Four ways to ask; `read` gives the usage of an answer that came whole. */
const ways = [
  { path: "chat/completions", stream: false, read: usageOfJson },
  { path: "chat/completions", stream: true, read: usageOfChatStream },
  { path: "responses", stream: false, read: usageOfJson },
  { path: "responses", stream: true, read: usageOfResponsesStream },
] as const;

/** Asks in all four ways by turns, so many at once. Never rejects, whatever becomes of the gateway. */
export async function sendMixedLoad(
  gateway: { readonly url: string },
  key: string,
  load: MixedLoad,
): Promise<LoadSeen> {
  const whole: WholeAnswer[] = [];
  const refusals: number[] = [];
  let begun = 0;
  const visit = async (): Promise<void> => {
    while (begun < load.requests && !load.isOver()) {
      const way = ways[begun % ways.length] ?? ways[0];
      begun += 1;
      const { status, answer } = await ask(gateway.url, key, way);
      if (status !== 0 && status !== 200) refusals.push(status);
      if (!answer) continue;
      whole.push(answer);
      await load.seen(answer);
    }
  };
  await Promise.all(Array.from({ length: load.atOnce }, visit));
  return { begun, whole, refusals };
}

/** One request; status 0 where there was no answer. */
async function ask(
  url: string,
  key: string,
  way: (typeof ways)[number],
): Promise<{ status: number; answer: WholeAnswer | undefined }> {
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
  let status = 0;
  let id = "";
  let text = "";
  try {
    const response = await fetch(`${url}/v1/${way.path}`, {
      method: "POST",
      headers: { authorization: `Bearer ${key}` },
      body: JSON.stringify(body),
    });
    status = response.status;
    id = response.headers.get("x-request-id") ?? "";
    const decoder = new TextDecoder();
    for await (const bytes of response.body ?? []) text += decoder.decode(bytes, { stream: true });
  } catch {
    // The gateway is gone. What came until then may still have been a whole answer.
  }
  const usage = status === 200 ? way.read(text) : undefined;
  return { status, answer: usage && { id, charge: priceOf(usage) } };
}

function priceOf(usage: Usage): bigint {
  return costOf({
    prompt: usage["prompt_tokens"] ?? usage["input_tokens"] ?? NaN,
    completion: usage["completion_tokens"] ?? usage["output_tokens"] ?? NaN,
  });
}

function usageOfJson(text: string): Usage | undefined {
  try {
    return (JSON.parse(text) as { usage?: Usage }).usage;
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
