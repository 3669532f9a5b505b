// Request bodies as coding agents send them: long instructions, definitions of tools, calls with code in their arguments,
// results with files and terminal output, and pictures in base64. The same seed gives the same body.
import { seededRandom, type Chance } from "../../test/support/seededRandom.ts";

/** The interface that the body is written for. */
export type AgentForm = "chat" | "responses" | "messages";

interface AgentBody {
  readonly model: string;
  /** The length to reach. It is met to within one turn of the conversation. */
  readonly bytes: number;
  readonly form?: AgentForm;
  readonly seed?: number;
  /** Members of the top level besides the model and the conversation. They come first. */
  readonly fields?: Readonly<Record<string, unknown>>;
}

/** A large body has this many tools, a small one fewer. */
const TOOLS = 18;
const BYTES_FOR_A_TOOL = 4000;
const PARAGRAPHS = 24;
/** The part of a large body that is a picture. */
const PICTURE_SHARE = 0.15;
const PICTURE_FROM_BYTES = 100_000;

const verbs = ["read", "write", "find", "render", "check", "parse", "open", "close", "merge"];
const nouns = ["file", "request", "account", "row", "token", "index", "buffer", "route", "price"];
const types = ["string", "number", "boolean", "Uint8Array", "readonly string[]", "unknown"];
const words = [
  ..."the a of to is in when it for this and only never must with each before after not an".split(
    " ",
  ),
  ...nouns,
  ...verbs,
];

/** One step of the agent: what it says, the call, and what the tool returns. */
interface Step {
  readonly say: string;
  readonly id: string;
  readonly tool: string;
  readonly input: Readonly<Record<string, unknown>>;
  readonly result: string;
}

interface Tool {
  readonly name: string;
  readonly description: string;
  readonly schema: object;
}

/** A conversation, in no interface's form. */
interface Conversation {
  readonly instructions: string;
  readonly question: string;
  readonly tools: readonly Tool[];
  readonly steps: readonly Step[];
  /** Base64; empty without one. */
  readonly picture: string;
}

/** The JSON text of the body. */
export function agentBody(options: AgentBody): string {
  const { model, bytes, form = "chat", seed = 1, fields = {} } = options;
  const chance = seededRandom(seed);
  const head = { model, ...fields };
  const pictureBytes = bytes >= PICTURE_FROM_BYTES ? Math.floor(bytes * PICTURE_SHARE) : 0;
  const parts = Math.ceil(bytes / BYTES_FOR_A_TOOL);
  const conversation = {
    instructions: paragraphs(chance, Math.min(parts, PARAGRAPHS)),
    question: paragraph(chance),
    tools: Array.from({ length: Math.min(parts, TOOLS) }, (_, at) => toolOf(chance, at)),
    steps: [] as Step[],
    picture: pictureOf(chance, pictureBytes),
  };
  const write = (steps: readonly Step[]): string =>
    JSON.stringify({ ...head, ...forms[form]({ ...conversation, steps }) });
  const before = Buffer.byteLength(write([]));
  let left = bytes - before;
  while (left > 0) {
    const tool = chance.pick(conversation.tools).name;
    const step = stepOf(chance, { at: conversation.steps.length, tool, bytesMax: left });
    conversation.steps.push(step);
    left -= Buffer.byteLength(write([step])) - before;
  }
  return write(conversation.steps);
}

const forms: Readonly<Record<AgentForm, (conversation: Conversation) => object>> = {
  chat: ({ instructions, question, tools, steps, picture }) => ({
    tools: tools.map(({ name, description, schema }) => ({
      type: "function",
      function: { name, description, parameters: schema },
    })),
    tool_choice: "auto",
    messages: [
      { role: "system", content: instructions },
      {
        role: "user",
        content: [
          { type: "text", text: question },
          ...(picture === ""
            ? []
            : [{ type: "image_url", image_url: { url: `data:image/png;base64,${picture}` } }]),
        ],
      },
      ...steps.flatMap(({ say, id, tool, input, result }) => [
        {
          role: "assistant",
          content: say,
          tool_calls: [
            { id, type: "function", function: { name: tool, arguments: JSON.stringify(input) } },
          ],
        },
        { role: "tool", tool_call_id: id, content: result },
      ]),
    ],
  }),
  responses: ({ instructions, question, tools, steps, picture }) => ({
    instructions,
    tools: tools.map(({ name, description, schema }) => ({
      type: "function",
      name,
      description,
      parameters: schema,
      strict: false,
    })),
    tool_choice: "auto",
    input: [
      {
        type: "message",
        role: "user",
        content: [
          { type: "input_text", text: question },
          ...(picture === ""
            ? []
            : [{ type: "input_image", image_url: `data:image/png;base64,${picture}` }]),
        ],
      },
      ...steps.flatMap(({ say, id, tool, input, result }) => [
        { type: "message", role: "assistant", content: [{ type: "output_text", text: say }] },
        { type: "function_call", call_id: id, name: tool, arguments: JSON.stringify(input) },
        { type: "function_call_output", call_id: id, output: result },
      ]),
    ],
    store: false,
  }),
  messages: ({ instructions, question, tools, steps, picture }) => ({
    system: [{ type: "text", text: instructions, cache_control: { type: "ephemeral" } }],
    tools: tools.map(({ name, description, schema }) => ({
      name,
      description,
      input_schema: schema,
    })),
    messages: [
      {
        role: "user",
        content: [
          { type: "text", text: question },
          ...(picture === ""
            ? []
            : [
                {
                  type: "image",
                  source: { type: "base64", media_type: "image/png", data: picture },
                },
              ]),
        ],
      },
      ...steps.flatMap(({ say, id, tool, input, result }, at) => [
        {
          role: "assistant",
          content: [
            { type: "text", text: say },
            { type: "tool_use", id, name: tool, input },
          ],
        },
        {
          role: "user",
          content: [
            {
              type: "tool_result",
              tool_use_id: id,
              content: result,
              ...(at === steps.length - 1 && { cache_control: { type: "ephemeral" } }),
            },
          ],
        },
      ]),
    ],
  }),
};

function toolOf(chance: Chance, at: number): Tool {
  const parameters = Array.from({ length: 2 + chance.below(6) }, (_, index) => [
    `${chance.pick(nouns)}_${index}`,
    {
      type: chance.pick(["string", "number", "boolean"]),
      description: sentence(chance),
      ...(chance.chance(0.2) && { enum: ["always", "never", "auto"] }),
    },
  ]);
  return {
    name: `${verbs[at % verbs.length]}_${nouns[(at * 4) % nouns.length]}_${at}`,
    description: paragraphs(chance, 1 + chance.below(4)),
    schema: {
      $schema: "http://json-schema.org/draft-07/schema#",
      type: "object",
      properties: Object.fromEntries(parameters),
      required: [parameters[0]?.[0]],
      additionalProperties: false,
    },
  };
}

/** The result has at most about `bytesMax` bytes. */
function stepOf(
  chance: Chance,
  { at, tool, bytesMax }: { at: number; tool: string; bytesMax: number },
): Step {
  const lines = Math.min(10 + chance.below(220), Math.ceil(bytesMax / 50));
  const isEdit = chance.chance(0.3);
  const path = `/home/dev/project/src/${chance.pick(nouns)}/${chance.pick(verbs)}.ts`;
  const input = isEdit
    ? {
        file_path: path,
        old_string: code(chance, Math.min(12, lines)),
        new_string: code(chance, Math.min(16, lines)),
      }
    : { command: `rg -n "${chance.pick(nouns)}" ${path} | head -${lines}` };
  return {
    say: chance.chance(0.5) ? paragraph(chance) : sentence(chance),
    id: `call_${at.toString(36).padStart(4, "0")}${chance.below(2 ** 31).toString(36)}`,
    tool,
    input,
    result: chance.chance(0.25) ? terminal(chance, lines) : numbered(code(chance, lines)),
  };
}

function sentence(chance: Chance): string {
  const text = Array.from({ length: 6 + chance.below(12) }, () => chance.pick(words)).join(" ");
  return `${text.charAt(0).toUpperCase()}${text.slice(1)}.`;
}

function paragraph(chance: Chance): string {
  const text = Array.from({ length: 2 + chance.below(4) }, () => sentence(chance)).join(" ");
  return chance.chance(0.2) ? `- **Note** \u2014 ${text} Use \`"${chance.pick(nouns)}"\`.` : text;
}

function paragraphs(chance: Chance, count: number): string {
  return Array.from({ length: count }, () => paragraph(chance)).join("\n\n");
}

function code(chance: Chance, lines: number): string {
  return Array.from({ length: lines }, () => codeLine(chance)).join("\n");
}

function codeLine(chance: Chance): string {
  const [verb, noun, other] = [chance.pick(verbs), chance.pick(nouns), chance.pick(nouns)];
  return chance.pick([
    "",
    "  }",
    `export function ${verb}${noun}(${other}: ${chance.pick(types)}): ${chance.pick(types)} {`,
    `  const ${noun} = ${verb}(${other}, { ${other}: "${noun}\\n", at: ${chance.below(1000)} });`,
    `\tif (${noun} === undefined || ${other}.length > ${chance.below(99)}) return "${verb}";`,
    `    throw new Error(\`no ${noun} in \${${other}.path}\`); // ${sentence(chance)}`,
  ]);
}

/** A file as a tool shows it. */
function numbered(text: string): string {
  return text
    .split("\n")
    .map((line, at) => `${String(at + 1).padStart(6)}\t${line}`)
    .join("\n");
}

function terminal(chance: Chance, lines: number): string {
  return Array.from({ length: lines }, () => {
    const isGood = chance.chance(0.9);
    const mark = isGood ? "\u001b[32m\u2713\u001b[0m" : "\u001b[31m\u2717\u001b[0m";
    return `${mark} ${sentence(chance)} \u001b[2m(${chance.below(90)} ms)\u001b[0m`;
  }).join("\r\n");
}

function pictureOf(chance: Chance, characters: number): string {
  const bytes = Uint8Array.from({ length: Math.floor((characters * 3) / 4) }, () =>
    chance.below(256),
  );
  return bytes.toBase64();
}
