import type { AnswerContent, Asked, AskedImage } from "../../providers/conformance/dialect.ts";
import { eventsIn, fieldsOf } from "./serverSentEvents.ts";
import {
  check,
  type ClientAnswer,
  type ClientStream,
  countOf,
  listOf,
  membersOf,
  openaiError,
  openaiUsage,
  type Speaker,
  textOf,
  understood,
} from "./speaker.ts";

type Fields = Readonly<Record<string, unknown>>;

/** A client of https://platform.openai.com/docs/api-reference/responses that wants nothing to be stored. */
export const responsesSpeaker: Speaker = {
  endpoint: "responses",
  path: "/v1/responses",
  body: ({ asks }) => (asks.stop === undefined ? bodyOf(asks) : undefined),
  restated: (asks) => asks,
  read(text) {
    const response = membersOf(JSON.parse(text));
    check(response["object"] === "response" && response["error"] === null, "not a response");
    return answerOf(response);
  },
  readStream,
  error: openaiError,
};

function bodyOf(asks: Asked): Fields {
  const { toolChoice, format } = asks;
  return {
    store: false,
    input: [
      ...(asks.system ?? []).map((content) => ({ role: "developer", content })),
      ...(asks.conversation ?? []).map(itemOf),
    ],
    ...(asks.stream && { stream: true }),
    ...(asks.bound !== undefined && { max_output_tokens: asks.bound }),
    ...(asks.temperature !== undefined && { temperature: asks.temperature }),
    ...(asks.topP !== undefined && { top_p: asks.topP }),
    ...(asks.effort !== undefined && { reasoning: { effort: asks.effort } }),
    ...(asks.tools && {
      tools: asks.tools.map(({ parameters, ...tool }) => ({
        type: "function",
        ...tool,
        parameters: parameters ?? { type: "object", properties: {} },
        strict: false,
      })),
    }),
    ...(toolChoice !== undefined && {
      tool_choice:
        typeof toolChoice === "string" ? toolChoice : { type: "function", ...toolChoice },
    }),
    ...(asks.parallelToolCalls !== undefined && { parallel_tool_calls: asks.parallelToolCalls }),
    ...(format !== undefined && {
      text: {
        format:
          format === "json"
            ? { type: "json_object" }
            : { type: "json_schema", name: "reply", strict: true, ...format },
      },
    }),
    ...(asks.user !== undefined && { user: asks.user }),
  };
}

/** Every piece is an item. */
function itemOf(piece: AnswerContent): object {
  if (piece.by === "tool") {
    return { type: "function_call_output", call_id: piece.answers, output: piece.text };
  }
  if ("call" in piece) {
    const { id, name, arguments: given } = piece.call;
    return { type: "function_call", call_id: id, name, arguments: JSON.stringify(given) };
  }
  const { by: role } = piece;
  if ("image" in piece) {
    return { role, content: [{ type: "input_image", image_url: urlOf(piece.image) }] };
  }
  const type = role === "assistant" ? "output_text" : "input_text";
  return { type: "message", role, content: [{ type, text: piece.text }] };
}

function urlOf(image: AskedImage): string {
  return "url" in image ? image.url : `data:${image.mediaType};base64,${image.base64}`;
}

/** The order of events is that of https://platform.openai.com/docs/api-reference/responses-streaming. */
function readStream(text: string): ClientStream {
  const events = eventsIn(text).filter(({ data }) => data !== "[DONE]");
  const items = new ItemReader();
  for (const [at, event] of events.entries()) {
    const fields = fieldsOf(event);
    const type = textOf(fields["type"]);
    check((event.name ?? type) === type, `an event ${event.name} of another type`);
    check(fields["sequence_number"] === at, `the event ${at} has another number`);
    const isLast = at === events.length - 1;
    if (type === "error") {
      check(isLast, "an event follows the error");
      return { ended: "failed", type: textOf(fields["code"]), message: textOf(fields["message"]) };
    }
    const response = membersOf(fields["response"]);
    const isEnd = type === "response.completed" || type === "response.incomplete";
    if (isEnd) {
      check(isLast, "an event follows the end");
      check(type === `response.${textOf(response["status"])}`, "the end has another status");
      check(Bun.deepEquals(response["output"], items.ended), "the end has other items");
      return { ended: "whole", answer: answerOf(response) };
    }
    if (at < 2) {
      const opening = ["response.created", "response.in_progress"][at];
      check(type === opening && response["status"] === "in_progress", `not ${opening}`);
      check(listOf(response["output"]).length === 0, "a new response has items");
    } else items.read(type, fields);
  }
  throw new Error("the stream does not end");
}

/** The text of a part, and the names of its delta's and its last event's fields. */
const texts: Readonly<Record<string, string>> = {
  output_text: "content_index",
  reasoning_summary_text: "summary_index",
  function_call_arguments: "",
};

/** Reads the items of a response from their events. */
class ItemReader {
  /** The texts so far, by the place of the text. Undefined once it has ended. */
  readonly #texts = new Map<string, string | undefined>();
  readonly #open = new Map<unknown, Fields>();
  readonly #ended: Fields[] = [];
  #count = 0;

  /** The items. Throws if one has not ended. */
  get ended(): readonly Fields[] {
    check(this.#open.size === 0, "an item is open at the end");
    return this.#ended;
  }

  read(type: string, fields: Fields): void {
    const { output_index: index, item_id: id, item } = fields;
    if (type === "response.output_item.added") {
      check(index === this.#count, `the item ${String(index)} is out of order`);
      this.#count += 1;
      this.#open.set(index, membersOf(item));
      return;
    }
    const open = this.#open.get(index);
    check(open !== undefined, `${type} of an item that is not open`);
    if (type === "response.output_item.done") {
      check(open["id"] === membersOf(item)["id"], "an item ends with another id");
      this.#ended[countOf(index)] = membersOf(item);
      this.#open.delete(index);
      return;
    }
    check(id === undefined || id === open["id"], `${type} of another item`);
    const [, name = "", step] = /^response\.(\w+)\.(delta|done)$/.exec(type) ?? [];
    const indexName = texts[name];
    if (indexName !== undefined) this.#readText(step ?? "", fields, fields[indexName]);
  }

  #readText(step: string, fields: Fields, part: unknown): void {
    const place = `${String(fields["output_index"])} ${String(part)}`;
    const before = this.#texts.get(place) ?? "";
    check(!this.#texts.has(place) || this.#texts.get(place) !== undefined, "a text goes on");
    if (step === "delta") this.#texts.set(place, before + textOf(fields["delta"]));
    else {
      check((fields["text"] ?? fields["arguments"]) === before, "a text ends with another text");
      this.#texts.set(place, undefined);
    }
  }
}

function answerOf(response: Fields): ClientAnswer {
  const items = listOf(response["output"]).map(membersOf);
  const ofType = (type: string): readonly Fields[] => items.filter((item) => item["type"] === type);
  const summaries = ofType("reasoning").flatMap(({ summary }) => listOf(summary).map(membersOf));
  const parts = ofType("message").flatMap(({ content }) => listOf(content).map(membersOf));
  const calls = items.filter(({ type }) => type === "function_call" || type === "custom_tool_call");
  return {
    text: parts.map(({ type, text }) => (type === "output_text" ? textOf(text) : "")).join(""),
    reasoning:
      summaries.length === 0 ? undefined : summaries.map(({ text }) => textOf(text)).join("\n\n"),
    // The input of a custom tool is a text.
    toolCalls: calls.map(
      ({ call_id: id, name, input, arguments: given = JSON.stringify({ input }) }) =>
        understood({ id: textOf(id), name: textOf(name), arguments: textOf(given) }),
    ),
    finish: finishOf(response, calls.length > 0),
    usage: openaiUsage(response["usage"], "input", "output"),
  };
}

function finishOf({ status, incomplete_details: details }: Fields, hasCalls: boolean): string {
  if (status === "incomplete") {
    const { reason } = membersOf(details);
    return reason === "max_output_tokens" ? "length" : textOf(reason);
  }
  check(status === "completed", `the response is ${String(status)}`);
  return hasCalls ? "tool_calls" : "stop";
}
