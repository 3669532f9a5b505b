/**
 * What it costs to read a chat's body, beside JSON.parse: the parse with its limits, repeated keys and positions; all
 * checks; the text for the provider. `bun bench/scanJson.ts`.
 */
import { agentBody } from "./gateway/agentBody.ts";
import { checkChatRequest, chatFiguresOf, ownChatRules } from "../src/contract/chat/chatRequest.ts";
import { checkPromptBody, parseJsonObject } from "../src/contract/jsonBody.ts";
import type { JsonFields } from "../src/lib/json.ts";
import { splice } from "../src/lib/splice.ts";

const ROUNDS = 7;
const RULES = ownChatRules({ allowedTools: [] });
const EDITS = { set: { model: '"m2"' }, remove: ["max_tokens"] };

/** The content of messages: prose has no escapes, code has one at each quote and each line end. */
const lines = {
  prose: "A sentence as people write it, without anything to escape. ",
  code: 'console.log("a line of code", 42);\n',
};

function chatBody(line: string, messages: number, characters: number): string {
  const list = Array.from({ length: messages }, (_, at) => ({
    role: at % 2 === 0 ? "user" : "assistant",
    content: line.repeat(Math.ceil(characters / line.length)),
  }));
  return JSON.stringify({ model: "m", temperature: 0.7, stream: true, messages: list });
}

/** The fastest of several rounds, in microseconds a call. */
function fastestUs(work: () => unknown, calls: number): number {
  for (let call = 0; call < calls; call += 1) work();
  const rounds = Array.from({ length: ROUNDS }, () => {
    const startedMs = performance.now();
    for (let call = 0; call < calls; call += 1) work();
    return ((performance.now() - startedMs) * 1000) / calls;
  });
  return Math.min(...rounds);
}

const figures = (value: JsonFields): unknown => chatFiguresOf(value, RULES);

const bodies: readonly (readonly [kind: string, text: string])[] = [
  ...Object.entries(lines).flatMap(([kind, line]) =>
    [chatBody(line, 5, 350), chatBody(line, 40, 5000)].map((text) => [kind, text] as const),
  ),
  ["an agent's", agentBody({ model: "m", bytes: 200_000 })],
];

for (const [kind, text] of bodies) {
  const calls = Math.ceil(20_000_000 / text.length);
  const parse = fastestUs(() => JSON.parse(text), calls).toFixed(2);
  const { value, object } = parseJsonObject(text);
  const bytes = Buffer.from(text);
  const read = fastestUs(() => parseJsonObject(bytes), calls).toFixed(2);
  const check = fastestUs(() => checkChatRequest(value, RULES), calls).toFixed(2);
  const both = fastestUs(() => checkPromptBody(bytes, figures), calls).toFixed(2);
  const write = fastestUs(() => splice(object, EDITS), calls).toFixed(2);
  console.log(
    `${kind}, ${text.length} characters: JSON.parse ${parse} us; read ${read}, check ${check}, both by an outline ${both}, write ${write}`,
  );
}
