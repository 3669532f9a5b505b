/**
 * What it costs to read a chat's body, beside JSON.parse: the parse with its limits, repeated keys and positions; all
 * checks; the text for the provider. `bun bench/scanJson.ts`.
 */
import { checkChatRequest, ownChatRules } from "../src/contract/chat/chatRequest.ts";
import { parseJsonObject } from "../src/contract/jsonBody.ts";
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

for (const [kind, line] of Object.entries(lines)) {
  for (const text of [chatBody(line, 5, 350), chatBody(line, 40, 5000)]) {
    const calls = Math.ceil(20_000_000 / text.length);
    const parse = fastestUs(() => JSON.parse(text), calls).toFixed(2);
    const { value, object } = parseJsonObject(text);
    const read = fastestUs(() => parseJsonObject(text), calls).toFixed(2);
    const check = fastestUs(() => checkChatRequest(value, RULES), calls).toFixed(2);
    const write = fastestUs(() => splice(object, EDITS), calls).toFixed(2);
    console.log(
      `${kind}, ${text.length} characters: JSON.parse ${parse} us; read ${read}, check ${check}, write ${write}`,
    );
  }
}
