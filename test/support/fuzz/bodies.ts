import { isUtf8 } from "node:buffer";
import { changed } from "./byteChanges.ts";
import { weighed, type Chance } from "../seededRandom.ts";
import { changeTree, textOf, treeOf } from "./jsonTree.ts";
import { several } from "../several.ts";

export type Endpoint = "chat" | "responses";

/** A body, and the statuses that a client with money may get for it. */
export interface FuzzBody {
  readonly bytes: Buffer;
  readonly statuses: readonly number[];
}

/** Statuses for valid JSON: served, refused, too expensive, or an unknown name. */
const undecided = [200, 400, 402, 404] as const;

/** A body for a gateway with these models: valid, or changed as JSON, or changed as bytes. */
export function bodyFor(endpoint: Endpoint, models: readonly string[], chance: Chance): FuzzBody {
  const valid = endpoint === "chat" ? chatBody(models, chance) : responsesBody(models, chance);
  return weighed<() => FuzzBody>(chance, [
    [5, () => ({ bytes: Buffer.from(textOf(treeOf(valid), chance)), statuses: [200] })],
    [
      4,
      () => {
        const { tree, meaning } = changeTree(treeOf(valid), chance);
        const bytes = Buffer.from(textOf(tree, chance));
        return { bytes, statuses: meaning === "refused" ? [400] : statusesOf(bytes) };
      },
    ],
    [
      3,
      () => {
        const bytes = changed(Buffer.from(textOf(treeOf(valid), chance)), chance);
        return { bytes, statuses: statusesOf(bytes) };
      },
    ],
  ])();
}

/** By the rules of JSON alone: what is none must be refused. */
function statusesOf(bytes: Buffer): readonly number[] {
  if (!isUtf8(bytes)) return [400];
  try {
    const value: unknown = JSON.parse(bytes.toString());
    const isObject = typeof value === "object" && value !== null && !Array.isArray(value);
    return isObject ? undecided : [400];
  } catch {
    return [400];
  }
}

/** Valid texts that parsers of JSON, event streams and text often get wrong. */
export const oddTexts = [
  "hello",
  "",
  "Привет, мир",
  "\u{1F600}\u{1F468}\u200D\u{1F469}\u200D\u{1F467}",
  'quotes " and \\ and / and \u0000\u001f',
  "line\nline\r\nline\u2028line",
  '{"model":"other","model":"twice"}',
  "data: [DONE]\n\n",
  "\\ud800",
  "\uFFFD\uFEFF",
] as const;

function text(chance: Chance): string {
  const long = chance.chance(0.005) ? chance.below(20_000) : chance.below(3);
  return chance.pick(oddTexts) + "long text ".repeat(long);
}

/** Each of the fields or, more often, none. */
function some(
  chance: Chance,
  fields: Readonly<Record<string, () => unknown>>,
): Record<string, unknown> {
  const chosen = Object.entries(fields).filter(() => chance.chance(0.2));
  return Object.fromEntries(chosen.map(([name, make]) => [name, make()]));
}

function chatBody(models: readonly string[], chance: Chance): Record<string, unknown> {
  const bound = ["max_tokens", "max_completion_tokens", "max_output_tokens"] as const;
  return {
    model: chance.pick(models),
    messages: several(1 + chance.below(4), () => message(chance)),
    ...some(chance, {
      stream: () => chance.chance(0.8),
      stream_options: () => chance.pick([null, {}, { include_usage: true }, { other: 1 }]),
      [chance.pick(bound)]: () => chance.pick([null, 1, 5, 1000]),
      n: () => 1 + chance.below(8),
      temperature: () => chance.pick([null, 0, 0.7, 2]),
      top_p: () => chance.pick([0, 0.5, 1]),
      stop: () => chance.pick([null, "x", ["x"], ["a", "b", "c", "d"]]),
      reasoning_effort: () => chance.pick(["low", "medium", "high", "xhigh"]),
      verbosity: () => chance.pick(["low", "medium", "high"]),
      reasoningSummary: () => chance.pick(["auto", "detail", "concise"]),
      tools: () => [{ type: "function", function: { name: "f", parameters: {} } }],
      response_format: () => ({ type: "json_schema", json_schema: { name: "a", schema: {} } }),
      service_tier: () => chance.pick([null, "auto", "default"]),
      metadata: () => ({ a: text(chance) }),
      seed: () => chance.below(1000),
      "an unknown field": () => [{ deep: { deeper: [text(chance)] } }, -0.5, null],
    }),
  };
}

function message(chance: Chance): object {
  const role = chance.pick(["system", "user", "assistant", "developer", "tool"]);
  const parts = () => [
    { type: "text", text: text(chance) },
    { type: "image_url", image_url: { url: "https://example.com/a.png" } },
  ];
  const call = { id: "call_1", type: "function", function: { name: "f", arguments: "{}" } };
  if (role === "assistant" && chance.chance(0.2))
    return { role, content: null, tool_calls: [call] };
  const content = chance.chance(0.2) ? parts() : text(chance);
  return { role, content, ...some(chance, { name: () => "a", "x-unknown": () => [1] }) };
}

function responsesBody(models: readonly string[], chance: Chance): Record<string, unknown> {
  const item = () => ({ role: "user", content: [{ type: "input_text", text: text(chance) }] });
  return {
    model: chance.pick(models),
    input: chance.chance(0.5) ? text(chance) : several(1 + chance.below(3), item),
    ...some(chance, {
      stream: () => chance.chance(0.8),
      max_output_tokens: () => chance.pick([null, 16, 1000]),
      instructions: () => text(chance),
      metadata: () => ({ a: text(chance) }),
      tools: () => [{ type: "function", name: "f", parameters: {} }],
      text: () => ({ format: { type: "text" } }),
      reasoning: () => ({ effort: "low", summary: "auto" }),
      background: () => false,
      previous_response_id: () => null,
      "an unknown field": () => ({ a: [text(chance)] }),
    }),
  };
}
