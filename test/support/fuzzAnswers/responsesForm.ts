import { responseEvent, responseObject } from "../provider/upstreamText.ts";
import type { ReportedTokens, ContentChoice, AnswerContent } from "./answerContent.ts";
import { writtenJson, writtenStream, type Written } from "./dialect.ts";

/** The responses interface of OpenAI. `id` is the response's. */
export function writeResponse(said: AnswerContent, id: string): Written {
  return writtenJson(endedResponse(said, id));
}

export function writeResponseStream(said: AnswerContent, id: string): Written {
  const ended = endedResponse(said, id);
  const events = [...eventsOf(said, id), { type: `response.${ended.status}`, response: ended }];
  return writtenStream(
    events.map(({ type, ...fields }, sequence_number) =>
      responseEvent(type, { sequence_number, ...fields }),
    ),
    (event) => /^event: response\.(?:completed|incomplete)\n/.test(event),
  );
}

type Event = Readonly<Record<string, unknown>> & { readonly type: string };

function* eventsOf(said: AnswerContent, id: string): Generator<Event> {
  const [one] = said.choices;
  if (one === undefined) return;
  yield { type: "response.created", response: responseObject(id) };
  yield { type: "response.in_progress", response: responseObject(id) };
  for (const [output_index, item] of itemsOf(one, id).entries()) {
    const of = { item_id: item.id, output_index };
    yield { type: "response.output_item.added", output_index, item: { ...item, ...unsaid } };
    for (const [type, delta] of deltasOf(one, String(item["type"])))
      yield { type, ...of, content_index: 0, summary_index: 0, delta };
    yield { type: "response.output_item.done", output_index, item };
  }
}

/** What an item does not have yet when it begins. */
const unsaid = { content: [], summary: [], arguments: "" };

function deltasOf(one: ContentChoice, type: string): readonly (readonly [string, string])[] {
  const named = (name: string, texts: readonly string[]) =>
    texts.map((text) => [`response.${name}.delta`, text] as const);
  if (type === "reasoning") return named("reasoning_summary_text", one.thoughts);
  if (type === "message") return named("output_text", one.texts);
  return named("function_call_arguments", one.callArguments ?? []);
}

interface Item extends Readonly<Record<string, unknown>> {
  readonly id: string;
}

function itemsOf({ texts, thoughts, callArguments }: ContentChoice, id: string): Item[] {
  const summary = [{ type: "summary_text", text: thoughts.join("") }];
  const content = [{ type: "output_text", text: texts.join(""), annotations: [] }];
  const call = { call_id: "call_1", name: "f", arguments: callArguments?.join("") };
  return [
    ...(thoughts.length > 0 ? [{ id: `rs_${id}`, type: "reasoning", summary }] : []),
    { id: `msg_${id}`, type: "message", role: "assistant", status: "completed", content },
    ...(callArguments ? [{ id: `fc_${id}`, type: "function_call", ...call }] : []),
  ];
}

function endedResponse(said: AnswerContent, id: string) {
  const [one] = said.choices;
  const reason = { length: "max_output_tokens", content_filter: "content_filter" } as const;
  const isAborting = one?.end === "length" || one?.end === "content_filter";
  const status = isAborting ? "incomplete" : "completed";
  const response = responseObject(id, {
    status,
    incomplete_details: isAborting ? { reason: reason[one.end] } : null,
    output: one ? itemsOf(one, id) : [],
    usage: said.tokens ? usageOf(said.tokens) : null,
  });
  return { ...response, status };
}

function usageOf({ prompt, completion, cached, cacheWrite }: ReportedTokens): object {
  return {
    input_tokens: prompt,
    input_tokens_details: { cached_tokens: cached, cache_write_tokens: cacheWrite },
    output_tokens: completion,
    output_tokens_details: { reasoning_tokens: 0 },
    total_tokens: prompt + completion,
  };
}
