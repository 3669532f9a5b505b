import { openaiResponses } from "../../../src/providers/openai/openaiResponses.ts";
import type { ChatEvent } from "../../../src/providers/provider.ts";

/** Items of a response, and the events of its stream, for tests of chat over that interface. */

const text = { type: "output_text", text: "Hello", annotations: [] };
export const message = { id: "msg_1", type: "message", role: "assistant", content: [text] };
export const call = {
  id: "fc_1",
  type: "function_call",
  call_id: "call_1",
  name: "f",
  arguments: '{"a":1}',
};
export const custom = {
  id: "ct_1",
  type: "custom_tool_call",
  call_id: "call_2",
  name: "c",
  input: "do",
};
const summary = ["One.", "Two."].map((said) => ({ type: "summary_text", text: said }));
export const reasoning = { id: "rs_1", type: "reasoning", summary };

export type Fields = Readonly<Record<string, unknown>>;
/** One event, by its type and its other fields. */
export type Event = readonly [type: string, fields: object];

export function eventsOf(events: readonly Event[]): ChatEvent[] {
  const readEvent = openaiResponses.events();
  return events.map(([type, fields]) =>
    readEvent({ event: undefined, data: JSON.stringify({ type, ...fields }) }),
  );
}

interface Heard {
  /** By the names of the delta's fields. */
  readonly texts: Record<string, string>;
  /** Each with its id, its name and its arguments, in one text. */
  readonly calls: string[];
  reason: unknown;
}

/** The result of a stream for its client: its concatenated deltas, and how it ended. */
export function decodedStream(events: readonly Event[]): Heard {
  const all: Heard = {
    texts: {},
    calls: [],
    reason: undefined,
  };
  for (const event of eventsOf(events)) {
    if (event.kind !== "chunk") continue;
    const [choice] = event.chunk["choices"] as { delta: Fields; finish_reason: unknown }[];
    for (const [name, value] of Object.entries(choice?.delta ?? {})) {
      if (typeof value === "string") all.texts[name] = (all.texts[name] ?? "") + value;
    }
    for (const one of (choice?.delta["tool_calls"] ?? []) as Record<string, Fields>[]) {
      const { index, id = "", function: called, custom: own } = one;
      const said = [id, ...Object.values(called ?? own ?? {})].join("");
      all.calls[Number(index)] = (all.calls[Number(index)] ?? "") + said;
    }
    all.reason = choice?.finish_reason ?? all.reason;
  }
  return all;
}

export const added = (item: object, at: number): Event => [
  "response.output_item.added",
  { output_index: at, item: { ...item, arguments: "", input: "", content: [] } },
];
export const done = (item: object, at: number): Event => [
  "response.output_item.done",
  { output_index: at, item },
];
export const ended = (output: unknown, fields: object = {}): Event => [
  "response.completed",
  { response: { status: "completed", output, ...fields } },
];
export const textDelta = (delta: string, fields: object = {}): Event => [
  "response.output_text.delta",
  { item_id: "msg_1", output_index: 0, content_index: 0, delta, ...fields },
];
export const textDone: Event = ["response.output_text.done", { output_index: 0, text: "Hello" }];
export const argumentsDelta = (delta: string, fields: object): Event => [
  "response.function_call_arguments.delta",
  { delta, ...fields },
];
