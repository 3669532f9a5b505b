// What a Messages request and its events cost, beside those of a chat:
//
//   bun run build && bun bench/messages.ts [--rounds N]
//
// Figures are CPU time of the gateway's process, user and system, for each request or event. All calls take turns in one
// run. Tollgate runs as an operator runs it. The provider and the client are not measured. Everything is on loopback.
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { quantile } from "./gateway/figures.ts";
import { cpuUs, endAll } from "./gateway/processes.ts";
import { serveBinary, type ServedBinary } from "./gateway/servedBinary.ts";

/** A call, and the model whose route it uses. */
interface Call {
  readonly name: string;
  readonly path: string;
  readonly model: string;
}

const calls: readonly Call[] = [
  { name: "chat over kind openai", path: "/v1/chat/completions", model: "chat" },
  { name: "chat over kind anthropic", path: "/v1/chat/completions", model: "claude" },
  { name: "messages, native", path: "/v1/messages", model: "claude" },
  { name: "messages, translated", path: "/v1/messages", model: "chat" },
];

const ROUNDS = 7;
const AT_ONCE = 32;
const JSON_REQUESTS = 4000;
const STREAMS = 400;
const EVENTS = 200;
const TEXT = "An answer of some length. ";

const { values } = parseArgs({ options: { rounds: { type: "string" } } });
const folder = mkdtempSync(join(tmpdir(), "tollgate-messages-"));

const chatUsage = { prompt_tokens: 500, completion_tokens: 200, total_tokens: 700 };
const messageUsage = { input_tokens: 500, output_tokens: 200 };
const chunkFields = { id: "chatcmpl-1", object: "chat.completion.chunk", created: 1, model: "m" };
const message = { id: "msg_1", type: "message", role: "assistant", model: "m" };

const answers = {
  chat: JSON.stringify({
    ...chunkFields,
    object: "chat.completion",
    choices: [
      {
        index: 0,
        message: { role: "assistant", content: TEXT.repeat(32) },
        finish_reason: "stop",
      },
    ],
    usage: chatUsage,
  }),
  messages: JSON.stringify({
    ...message,
    content: [{ type: "text", text: TEXT.repeat(32) }],
    stop_reason: "end_turn",
    stop_sequence: null,
    usage: messageUsage,
  }),
};

const streams = {
  chat: [
    ...Array.from({ length: EVENTS }, () => chunk({ content: TEXT }, null)),
    chunk({}, "stop"),
    `data: ${JSON.stringify({ ...chunkFields, choices: [], usage: chatUsage })}\n\n`,
    "data: [DONE]\n\n",
  ],
  messages: [
    event("message_start", { message: { ...message, content: [], usage: messageUsage } }),
    event("content_block_start", { index: 0, content_block: { type: "text", text: "" } }),
    ...Array.from({ length: EVENTS }, () =>
      event("content_block_delta", { index: 0, delta: { type: "text_delta", text: TEXT } }),
    ),
    event("content_block_stop", { index: 0 }),
    event("message_delta", { delta: { stop_reason: "end_turn" }, usage: messageUsage }),
    event("message_stop", {}),
  ],
};

function chunk(delta: object, finishReason: string | null): string {
  const choices = [{ index: 0, delta, finish_reason: finishReason }];
  return `data: ${JSON.stringify({ ...chunkFields, choices })}\n\n`;
}

function event(type: string, fields: object): string {
  return `event: ${type}\ndata: ${JSON.stringify({ type, ...fields })}\n\n`;
}

/** Each event is a write of its own. */
const provider = Bun.serve({
  hostname: "127.0.0.1",
  port: 0,
  async fetch(request) {
    const form = request.url.endsWith("/messages") ? "messages" : "chat";
    const { stream } = (await request.json()) as { stream?: boolean };
    if (stream !== true) {
      return new Response(answers[form], { headers: { "content-type": "application/json" } });
    }
    const body = new ReadableStream({
      type: "direct",
      async pull(sink) {
        for (const text of streams[form]) {
          void sink.write(text);
          await sink.flush();
          await new Promise(setImmediate);
        }
        await sink.end();
      },
    });
    return new Response(body, { headers: { "content-type": "text/event-stream" } });
  },
});

/** Sends the requests of one turn. Resolves with the CPU time of each in microseconds. */
async function turn(gateway: ServedBinary, call: Call, stream: boolean): Promise<number> {
  const requests = stream ? STREAMS : JSON_REQUESTS;
  const body = JSON.stringify({
    model: call.model,
    max_tokens: 500,
    stream,
    messages: [
      { role: "user", content: "A question of some length, as people ask it. ".repeat(20) },
    ],
  });
  const headers = { "content-type": "application/json", authorization: `Bearer ${gateway.key}` };
  let left = requests;
  const client = async (): Promise<void> => {
    while (left > 0) {
      left -= 1;
      const response = await fetch(gateway.origin + call.path, { method: "POST", headers, body });
      if (!response.ok) throw new Error(`${call.name}: ${await response.text()}`);
      await response.arrayBuffer();
    }
  };
  const startedUs = cpuUs(gateway.child.pid);
  await Promise.all(Array.from({ length: AT_ONCE }, client));
  return (cpuUs(gateway.child.pid) - startedUs) / requests;
}

async function measure(): Promise<void> {
  const gateway = await serveBinary(join(folder, "tollgate"), {
    providers: {
      local: `http://127.0.0.1:${provider.port}/v1`,
      claude: { base_url: `http://127.0.0.1:${provider.port}/v1`, kind: "anthropic" },
    },
    models: [
      { id: "chat", routes: [{ provider: "local", responses: false }] },
      { id: "claude", routes: [{ provider: "claude", responses: false }] },
    ],
  });
  const rounds = Number(values.rounds ?? ROUNDS);
  for (const stream of [false, true]) {
    const figures = new Map(calls.map(({ name }) => [name, [] as number[]]));
    for (const call of calls) for (let n = 0; n < 2; n += 1) await turn(gateway, call, stream);
    for (let round = 0; round < rounds; round += 1) {
      const order = round % 2 === 0 ? calls : calls.toReversed();
      for (const call of order) figures.get(call.name)?.push(await turn(gateway, call, stream));
    }
    console.log(stream ? `streams of ${EVENTS} events` : "answers in JSON");
    const base = quantile(figures.get(calls[0]?.name ?? "") ?? [], 0.5) ?? 0;
    for (const [name, each] of figures) {
      const median = quantile(each, 0.5) ?? 0;
      const event = stream ? `, ${(median / EVENTS).toFixed(2)} us for an event` : "";
      const all = each.map((us) => us.toFixed(0)).join(" ");
      console.log(
        `  ${name}: ${median.toFixed(0)} us${event}, ${(median / base).toFixed(2)} x a chat (${all})`,
      );
    }
  }
}

try {
  await measure();
} finally {
  await endAll();
  await provider.stop(true);
  rmSync(folder, { recursive: true, force: true });
}
