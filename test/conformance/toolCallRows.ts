import { chatEvent } from "../support/provider/upstreamText.ts";

/** A call as a client must get it. Without an id: the gateway makes one. */
export interface ShownCall {
  readonly id?: string;
  readonly name: string;
  readonly arguments: object;
}

/** What a chat server sends, and the calls that a client of any interface must get. */
export interface CallRow {
  readonly calls: readonly ShownCall[];
  /** The text beside the calls. */
  readonly text?: string;
}

type Part = Readonly<Record<string, unknown>>;

const perm = { city: "Perm" };
const omsk = { city: "Omsk" };
const weather = (id: string | undefined, city: object): ShownCall => ({
  ...(id !== undefined && { id }),
  name: "get_weather",
  arguments: city,
});
const time = (id: string | undefined): ShownCall => ({
  ...(id !== undefined && { id }),
  name: "get_time",
  arguments: { tz: "UTC" },
});

const fn = (name: string, text: unknown): Part => ({ function: { name, arguments: text } });
const rest = (text: string): Part => ({ function: { arguments: text } });
const permText = '{"city":"Perm"}';
const omskText = '{"city":"Omsk"}';
const utcText = '{"tz":"UTC"}';
const open = { type: "function" };

type Delta = readonly Part[] | { readonly content: string };
type StreamRow = CallRow & { readonly deltas: readonly Delta[] };

/** Rows of which a client must get the same calls. */
function rowsWith(
  calls: readonly ShownCall[],
  deltasByName: Readonly<Record<string, readonly Delta[]>>,
): Readonly<Record<string, StreamRow>> {
  const rows = Object.entries(deltasByName).map(([name, deltas]) => [name, { deltas, calls }]);
  return Object.fromEntries(rows) as Readonly<Record<string, StreamRow>>;
}

/** Each entry is one delta: the parts of its calls, or a delta of its own. */
export const streamRows: Readonly<Record<string, StreamRow>> = {
  ...rowsWith([weather("a", perm), time("b")], {
    "OpenAI: pieces of two calls, one after the other": [
      [{ index: 0, id: "a", ...open, ...fn("get_weather", "") }],
      [{ index: 0, ...rest('{"ci') }],
      [{ index: 0, ...rest('ty":"Perm"}') }],
      [{ index: 1, id: "b", ...open, ...fn("get_time", "") }],
      [{ index: 1, ...rest(utcText) }],
    ],
    "Google, lmdeploy, gcli2api: whole calls, all with the index 0": [
      [{ index: 0, id: "a", ...open, ...fn("get_weather", permText) }],
      [{ index: 0, id: "b", ...open, ...fn("get_time", utcText) }],
    ],
    "a new id in each part, and the name in a later one": [
      [{ index: 0, id: "a", ...open, ...rest("") }],
      [{ index: 0, id: "a-1", ...rest('{"city":') }],
      [{ index: 0, id: "a-2", ...fn("get_weather", '"Perm"}') }],
      [{ index: 1, id: "b", ...open, ...rest("") }],
      [{ index: 1, id: "b-1", ...fn("get_time", utcText) }],
    ],
    "a name that is repeated with the blank end of the arguments": [
      [{ index: 0, id: "a", ...open, ...fn("get_weather", permText) }],
      [{ index: 0, ...fn("get_weather", "\n") }],
      [{ index: 1, id: "b", ...open, ...fn("get_time", utcText) }],
    ],
    "whole calls without an index, in a delta each": [
      [{ id: "a", ...open, ...fn("get_weather", permText) }],
      [{ id: "b", ...open, ...fn("get_time", utcText) }],
    ],
    "Mistral: a list of whole calls without a type": [
      [
        { index: 0, id: "a", ...fn("get_weather", permText) },
        { index: 1, id: "b", ...fn("get_time", utcText) },
      ],
    ],
    "the name of a second call comes after its id, under the index of the first": [
      [{ index: 0, id: "a", ...open, ...fn("get_weather", permText) }],
      [{ index: 0, id: "b", ...open }],
      [{ index: 0, ...rest('{"tz":') }],
      [{ index: 0, ...fn("get_time", '"UTC"}') }],
    ],
    "vLLM: a new id in each part": [
      [{ index: 0, id: "a", ...open, ...fn("get_weather", "") }],
      [{ index: 0, id: "x1", ...open, ...rest("") }],
      [{ index: 0, id: "x2", ...open, ...rest('{"city":') }],
      [{ index: 0, id: "x3", ...open, ...rest('"Perm"}') }],
      [{ index: 0, id: "x4", ...open, ...rest("") }],
      [{ index: 1, id: "b", ...open, ...fn("get_time", utcText) }],
      [{ index: 1, id: "x5", ...open, ...rest("") }],
    ],
    "DashScope, DeepSeek: empty texts in the fields of later parts": [
      [{ index: 0, id: "a", ...open, ...fn("get_weather", '{"ci') }],
      [{ index: 0, id: "", ...open, function: { name: "", arguments: 'ty":"Perm"}' } }],
      [{ index: 1, id: "b", ...open, ...fn("get_time", "") }],
      [{ index: 1, id: "", ...open, function: { name: "", arguments: utcText } }],
    ],
    "the parts of parallel calls are mixed": [
      [{ index: 0, id: "a", ...open, ...fn("get_weather", "") }],
      [{ index: 1, id: "b", ...open, ...fn("get_time", "") }],
      [{ index: 0, ...rest('{"city"') }],
      [{ index: 1, ...rest('{"tz":') }],
      [{ index: 0, ...rest(':"Perm"}') }],
      [{ index: 1, ...rest('"UTC"}') }],
    ],
    "the parts of calls with one index are mixed by id": [
      [{ index: 0, id: "a", ...open, ...fn("get_weather", "") }],
      [{ index: 0, id: "b", ...open, ...fn("get_time", "") }],
      [{ index: 0, id: "a", ...rest(permText) }],
      [{ index: 0, id: "b", ...rest(utcText) }],
    ],
    "parts without an index belong to the last call": [
      [{ id: "a", ...open, ...fn("get_weather", "") }],
      [rest('{"city":')],
      [rest('"Perm"}')],
      [{ id: "b", ...open, ...fn("get_time", "") }],
      [rest(utcText)],
    ],
    "indexes that do not begin at 0": [
      [{ index: 1, id: "a", ...open, ...fn("get_weather", permText) }],
      [{ index: 2, id: "b", ...open, ...fn("get_time", utcText) }],
    ],
  }),
  "the same call twice, with the index 0 and ids of their own": {
    deltas: [
      [
        { index: 0, id: "a", ...open, ...fn("get_weather", permText) },
        { index: 0, id: "b", ...open, ...fn("get_weather", permText) },
      ],
    ],
    calls: [weather("a", perm), weather("b", perm)],
  },
  "calls without an index and an id": {
    deltas: [
      [{ ...open, ...fn("get_weather", permText) }],
      [
        { ...open, ...fn("get_weather", permText) },
        { ...open, ...fn("get_time", utcText) },
      ],
    ],
    calls: [weather(undefined, perm), weather(undefined, perm), time(undefined)],
  },
  "calls with the index 0 and without an id": {
    deltas: [
      [{ index: 0, ...fn("get_weather", permText) }],
      [{ index: 0, id: "", ...fn("get_weather", omskText) }],
      [{ index: 0, id: null, ...fn("get_time", utcText) }],
    ],
    calls: [weather(undefined, perm), weather(undefined, omsk), time(undefined)],
  },
  "calls with indexes and without ids, in pieces": {
    deltas: [
      [{ index: 0, ...open, ...fn("get_weather", "") }],
      [{ index: 0, ...rest(permText) }],
      [{ index: 1, ...open, ...fn("get_time", "") }],
      [{ index: 1, ...rest(utcText) }],
    ],
    calls: [weather(undefined, perm), time(undefined)],
  },
  ...rowsWith([weather("a", perm)], {
    "the name comes after the id": [
      [{ index: 0, id: "a", ...open, ...rest("") }],
      [{ index: 0, ...fn("get_weather", permText) }],
    ],
    "the name comes after the id and pieces of the arguments": [
      [{ index: 0, id: "a", ...open }],
      [{ index: 0, ...rest('{"ci') }],
      [{ index: 0, ...fn("get_weather", 'ty":') }],
      [{ index: 0, ...rest('"Perm"}') }],
    ],
    "the name comes after the id, without an index": [
      [{ id: "a" }],
      [fn("get_weather", "")],
      [rest(permText)],
    ],
    "SGLang, GLM: null in the fields of later parts": [
      [{ index: 0, id: "a", ...open, ...fn("get_weather", "") }],
      [{ index: 0, id: null, type: null, function: { name: null, arguments: permText } }],
    ],
    "id and name are repeated in each part": [
      [{ index: 0, id: "a", ...open, ...fn("get_weather", "") }],
      [{ index: 0, id: "a", ...open, ...fn("get_weather", '{"city":') }],
      [{ index: 0, id: "a", ...open, ...fn("get_weather", '"Perm"}') }],
      [{ index: 0, id: "a", ...open, ...fn("get_weather", "") }],
    ],
    "the name is repeated with a new id, before the rest of the arguments": [
      [{ index: 0, id: "a", ...fn("get_weather", '{"city":') }],
      [{ index: 0, id: "b", ...fn("get_weather", '"Perm"}') }],
    ],
    "the whole call comes again at the end": [
      [{ index: 0, id: "a", ...open, ...fn("get_weather", "") }],
      [{ index: 0, ...rest('{"city":') }],
      [{ index: 0, ...rest('"Perm"}') }],
      [{ index: 0, id: "a", ...open, ...fn("get_weather", permText) }],
      [{ index: 0, ...rest(permText) }],
    ],
    "a part with a wrong index belongs to the last call": [
      [{ index: 0, id: "a", ...open, ...fn("get_weather", '{"city":') }],
      [{ index: 1, ...rest('"Perm"}') }],
    ],
    "entries that say nothing": [
      [{}, { index: 0 }],
      [{ index: 0, id: "a", ...open, ...fn("get_weather", permText) }],
      [{ index: 0 }],
    ],
  }),
  "the names of two calls come after their ids": {
    deltas: [
      [
        { index: 0, id: "a" },
        { index: 1, id: "b" },
      ],
      [
        { index: 1, ...fn("get_time", utcText) },
        { index: 0, ...fn("get_weather", permText) },
      ],
    ],
    calls: [time("b"), weather("a", perm)],
  },
  "the name is repeated in each part, without an id": {
    deltas: [
      [{ index: 0, ...fn("get_weather", '{"city":') }],
      [{ index: 0, ...fn("get_weather", '"Perm"}') }],
    ],
    calls: [weather(undefined, perm)],
  },
  "Kimi: ids with names": {
    deltas: [
      [{ index: 0, id: "functions.get_weather:0", ...open, ...fn("get_weather", "") }],
      [{ index: 0, ...rest(permText) }],
      [{ index: 1, id: "functions.get_weather:1", ...open, ...fn("get_weather", "") }],
      [{ index: 1, ...rest(omskText) }],
    ],
    calls: [weather("functions.get_weather:0", perm), weather("functions.get_weather:1", omsk)],
  },
  ...rowsWith([weather("get_weather", perm), weather(undefined, omsk)], {
    "the id is the name: two calls with new indexes": [
      [{ index: 0, id: "get_weather", ...open, ...fn("get_weather", permText) }],
      [{ index: 1, id: "get_weather", ...open, ...fn("get_weather", "") }],
      [{ index: 1, ...rest(omskText) }],
    ],
    "the id is the name: two calls with the index 0": [
      [{ index: 0, id: "get_weather", ...open, ...fn("get_weather", permText) }],
      [{ index: 0, id: "get_weather", ...open, ...fn("get_weather", omskText) }],
    ],
    "the id is the name: two calls without an index": [
      [
        { id: "get_weather", ...open, ...fn("get_weather", permText) },
        { id: "get_weather", ...open, ...fn("get_weather", omskText) },
      ],
    ],
  }),
  "the parts of three calls are mixed, and the second has no arguments": {
    deltas: [
      [
        { index: 0, id: "a", ...open, ...fn("get_weather", '{"city":"}') },
        { index: 1, id: "b", ...open, ...fn("list", "") },
        { index: 2, id: "c", ...open, ...fn("get_time", "{") },
      ],
      [
        { index: 2, ...rest('"tz":"UTC"}') },
        { index: 0, ...rest('\\""}') },
      ],
    ],
    calls: [weather("a", { city: '}"' }), { id: "b", name: "list", arguments: {} }, time("c")],
  },
  "Ollama: arguments as an object": {
    deltas: [
      [{ index: 0, id: "a", ...open, ...fn("get_weather", perm) }],
      [{ index: 0, id: "b", ...open, ...fn("list", null) }],
      [{ index: 0, id: "c", ...open, function: { name: "list" } }],
    ],
    calls: [
      weather("a", perm),
      { id: "b", name: "list", arguments: {} },
      { id: "c", name: "list", arguments: {} },
    ],
  },
  "Cloudflare: name and arguments beside the id": {
    deltas: [
      [{ id: "a", name: "get_weather", arguments: perm }],
      [{ name: "get_time", arguments: utcText }],
    ],
    calls: [weather("a", perm), time(undefined)],
  },
  "a text between the parts of a call, and one after it": {
    deltas: [
      { content: "I " },
      [{ index: 0, id: "a", ...open, ...fn("get_weather", '{"city":') }],
      { content: "look" },
      [{ index: 0, ...rest('"Perm"}') }],
      { content: "." },
    ],
    calls: [weather("a", perm)],
    text: "I look.",
  },
};

/** What only Messages mends: it knows where the arguments of a call end. */
export const excessRows: typeof streamRows = {
  "vLLM: a brace too many": {
    deltas: [
      [{ index: 0, id: "a", ...open, ...fn("get_weather", permText) }],
      [{ index: 0, ...rest("}") }],
    ],
    calls: [weather("a", perm)],
  },
  "a brace too many, after the next call has begun": {
    deltas: [
      [
        { index: 0, id: "a", ...open, ...fn("get_weather", permText) },
        { index: 1, id: "b", ...open, ...fn("list", "") },
        { index: 2, id: "c", ...open, ...fn("get_time", utcText) },
        { index: 3, id: "d", ...open, ...fn("list", "") },
      ],
      [
        { index: 0, ...rest("}") },
        { index: 2, ...rest("}") },
      ],
    ],
    calls: [
      weather("a", perm),
      { id: "b", name: "list", arguments: {} },
      time("c"),
      { id: "d", name: "list", arguments: {} },
    ],
  },
};

/** The `tool_calls` of a message in JSON. */
export const jsonRows: Readonly<Record<string, CallRow & { readonly parts: readonly Part[] }>> = {
  "OpenAI: two calls": {
    parts: [
      { id: "a", ...open, ...fn("get_weather", permText) },
      { id: "b", ...open, ...fn("get_time", utcText) },
    ],
    calls: [weather("a", perm), time("b")],
  },
  "gcli2api: all with the index 0, and no type": {
    parts: [
      { index: 0, id: "a", ...fn("get_weather", permText) },
      { index: 0, id: "b", ...fn("get_weather", permText) },
    ],
    calls: [weather("a", perm), weather("b", perm)],
  },
  "no ids": {
    parts: [fn("get_weather", permText), { id: "", ...fn("get_weather", permText) }],
    calls: [weather(undefined, perm), weather(undefined, perm)],
  },
  "one id for all": {
    parts: [
      { id: "get_weather", ...fn("get_weather", permText) },
      { id: "get_weather", ...fn("get_weather", omskText) },
    ],
    calls: [weather("get_weather", perm), weather(undefined, omsk)],
  },
  "Ollama: arguments as an object, as null, and none": {
    parts: [
      { id: "a", ...open, ...fn("get_weather", perm) },
      { id: "b", ...open, ...fn("list", null) },
      { id: "c", ...open, function: { name: "list" } },
    ],
    calls: [
      weather("a", perm),
      { id: "b", name: "list", arguments: {} },
      { id: "c", name: "list", arguments: {} },
    ],
  },
  "Cloudflare: name and arguments beside the id": {
    parts: [{ name: "get_weather", arguments: perm }],
    calls: [weather(undefined, perm)],
  },
};

/** Calls whose name never comes. */
export const namelessRows: Readonly<Record<string, readonly Part[]>> = {
  "no name": [{ index: 0, id: "a", ...open, ...rest(permText) }],
  "an id alone": [{ index: 0, id: "a", ...open }],
  "arguments alone": [rest(permText)],
  "a call, and one without a name": [
    { index: 0, id: "a", ...open, ...fn("get_weather", permText) },
    { index: 1, id: "b", ...open, ...rest(utcText) },
  ],
};

export function callEvents(deltas: readonly Delta[]): string {
  return deltas
    .map((delta) => chatEvent("content" in delta ? delta : { tool_calls: delta }))
    .join("");
}
