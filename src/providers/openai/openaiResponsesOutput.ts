import { isJsonObject, type JsonFields } from "../../lib/json.ts";
import { AnswerError, answerText, ExcessiveAnswerError } from "../provider.ts";

/** The new part of an answer, in the fields of a chat message. */
export interface OutputDelta {
  content?: string;
  refusal?: string;
  reasoning_content?: string;
  tool_calls?: CallDelta[];
  /** Cited pages with their positions in the text. */
  annotations?: JsonFields[];
  /** Log probabilities of the text's tokens. A chat has them beside the message. */
  logprobs?: JsonFields[];
}

export interface CallDelta {
  readonly index: number;
  readonly id?: string;
  readonly type?: "function" | "custom";
  function?: { name?: string; arguments: string };
  custom?: { name?: string; input: string };
}

/** The kinds of content that a chat has a field for. */
type Kind = "text" | "refusal" | "summary" | "reasoning" | "logprobs" | "annotations";

/** More calls than any model makes in one answer. */
const CALLS_MAX = 1024;
/** A bound on all call ids together: the size limit of a JSON answer. */
const CALL_CHARACTERS_MAX = 32 * 1024 * 1024;
/**
 * A bound on all citations together, as JSON. Citations are kept until the end of the answer; those over the bound
 * are dropped.
 */
const CITATION_CHARACTERS_MAX = 1024 * 1024;

interface Call {
  readonly index: number;
  readonly callId: string;
  readonly type: "function" | "custom";
  readonly itemId: unknown;
  readonly outputIndex: unknown;
  source: string | undefined;
}

/**
 * Collects the content of a response, each part once. The interface repeats content up to four times: in deltas, at
 * the end of a part, at the end of an item, and in the whole response. Compatible servers leave some of these out. So
 * each kind of content is taken only from the first event type (`source`) that brings it, and the arguments of each
 * call likewise.
 */
export class ResponsesOutput {
  readonly #sources = new Map<Kind, string>();
  readonly #calls: Call[] = [];
  #callCharacters = 0;
  #reasoningPart: string | undefined;
  /** Characters of the texts whose annotations were read, by source. */
  readonly #annotatedCharacters = new Map<string, number>();
  readonly #citations: JsonFields[] = [];
  #citationCharacters = 0;
  #delta: OutputDelta = {};

  get callsTools(): boolean {
    return this.#calls.length > 0;
  }

  /** There is content since the last `take`. */
  get hasDelta(): boolean {
    return Object.keys(this.#delta).length > 0;
  }

  /** The content since the last `take`. */
  take(): OutputDelta {
    const delta = this.#delta;
    this.#delta = {};
    return delta;
  }

  /** The last content, with all citations in one list: clients keep only the last list, or fail at several. */
  takeLast(): OutputDelta {
    const delta = this.take();
    return this.#citations.length > 0 ? { ...delta, annotations: this.#citations } : delta;
  }

  /** Adds a text or a piece of it. `part` tells the parts of the reasoning apart. */
  addText(kind: Kind, source: string, value: unknown, part = ""): void {
    const text = textOf(value);
    if (text === "" || (this.#sources.get(kind) ?? source) !== source) return;
    this.#sources.set(kind, source);
    if (kind === "text") this.#delta.content = (this.#delta.content ?? "") + text;
    else if (kind === "refusal") this.#delta.refusal = (this.#delta.refusal ?? "") + text;
    else this.#addReasoning(text, `${kind} ${part}`);
  }

  /** Each token gets all fields of the chat form. */
  addLogprobs(source: string, value: unknown): void {
    const tokens = listOf(value);
    if (tokens.length === 0 || (this.#sources.get("logprobs") ?? source) !== source) return;
    this.#sources.set("logprobs", source);
    const delta = (this.#delta.logprobs ??= []);
    for (const token of tokens) {
      delta.push({ ...tokenOf(token), top_logprobs: listOf(token["top_logprobs"]).map(tokenOf) });
    }
  }

  /** Adds a finished item. Items of other types are the provider's own work, which a chat has no field for. */
  addItem(item: unknown, source: string, outputIndex: unknown): void {
    if (!isJsonObject(item)) return;
    switch (item["type"]) {
      case "message":
        for (const part of listOf(item["content"])) {
          if (part["type"] === "output_text") {
            this.addText("text", source, part["text"]);
            this.addLogprobs(source, part["logprobs"]);
            this.#annotate(source, part);
          }
          if (part["type"] === "refusal") this.addText("refusal", source, part["refusal"]);
        }
        break;
      case "reasoning":
        for (const [at, part] of listOf(item["summary"]).entries()) {
          this.addText("summary", source, part["text"], `${String(outputIndex)} ${at}`);
        }
        for (const [at, part] of listOf(item["content"]).entries()) {
          this.addText("reasoning", source, part["text"], `${String(outputIndex)} ${at}`);
        }
        break;
      case "function_call":
      case "custom_tool_call": {
        const call = this.openCall(item, outputIndex);
        this.addToCall(call, source, item["arguments"] ?? item["input"]);
      }
    }
  }

  /** Begins a call, unless it has begun. Its arguments come later. */
  openCall(item: JsonFields, outputIndex: unknown): Call {
    const { call_id: callId = item["id"], id: itemId, name } = item;
    const known = this.#calls.find((call) => call.callId === callId);
    if (known) return known;
    if (typeof callId !== "string" || typeof name !== "string") {
      throw new AnswerError("a call has no id or no name");
    }
    const index = this.#calls.length;
    this.#callCharacters += answerText([callId, itemId, outputIndex]).length;
    if (index === CALLS_MAX || this.#callCharacters > CALL_CHARACTERS_MAX) {
      throw new ExcessiveAnswerError("the answer has too many calls");
    }
    const type = item["type"] === "custom_tool_call" ? "custom" : "function";
    const call: Call = { index, callId, type, itemId, outputIndex, source: undefined };
    this.#calls.push(call);
    const called = type === "custom" ? { custom: { name, input: "" } } : undefined;
    const opened = called ?? { function: { name, arguments: "" } };
    this.#addCallDelta({ index, id: callId, type, ...opened });
    return call;
  }

  /**
   * The call that an event belongs to; undefined if its item has not begun. `output_index` comes first, because some
   * servers change the item id from event to event.
   */
  callOf({ item_id: itemId, output_index: outputIndex }: JsonFields): Call | undefined {
    const calls = this.#calls;
    if (outputIndex === undefined && itemId === undefined) return calls.at(-1);
    return (
      calls.find((call) => outputIndex !== undefined && call.outputIndex === outputIndex) ??
      calls.find((call) => itemId !== undefined && call.itemId === itemId)
    );
  }

  addToCall(call: Call | undefined, source: string, value: unknown): void {
    const text = textOf(value);
    if (!call || text === "" || (call.source ?? source) !== source) return;
    call.source = source;
    const { index, type } = call;
    const opened = this.#delta.tool_calls?.find((one) => one.index === index);
    if (opened?.function) opened.function.arguments += text;
    else if (opened?.custom) opened.custom.input += text;
    else if (type === "custom") this.#addCallDelta({ index, custom: { input: text } });
    else this.#addCallDelta({ index, function: { arguments: text } });
  }

  /** Positions count within their own text. A chat joins all texts, so the length of the texts before is added. */
  #annotate(source: string, { text, annotations }: JsonFields): void {
    const before = this.#annotatedCharacters.get(source) ?? 0;
    this.#annotatedCharacters.set(source, before + charactersOf(textOf(text)));
    if ((this.#sources.get("annotations") ?? source) !== source) return;
    for (const annotation of listOf(annotations)) {
      const citation = citationOf(annotation, before);
      if (!citation) continue;
      this.#sources.set("annotations", source);
      this.#citationCharacters += answerText(citation).length;
      if (this.#citationCharacters > CITATION_CHARACTERS_MAX) return;
      this.#citations.push(citation);
    }
  }

  /** Separates the parts of the reasoning by a blank line. */
  #addReasoning(text: string, part: string): void {
    const isNext = this.#reasoningPart !== undefined && this.#reasoningPart !== part;
    this.#reasoningPart = part;
    const before = this.#delta.reasoning_content ?? "";
    this.#delta.reasoning_content = before + (isNext ? "\n\n" : "") + text;
  }

  #addCallDelta(call: CallDelta): void {
    (this.#delta.tool_calls ??= []).push(call);
  }
}

function textOf(value: unknown): string {
  if (value === undefined || value === null) return "";
  if (typeof value !== "string") throw new AnswerError("a text is not a string");
  return value;
}

/** A chat token always has `bytes`; streams may leave them out. */
function tokenOf({ token, logprob, bytes }: JsonFields): JsonFields {
  return { token, logprob, bytes: bytes ?? null };
}

/**
 * A cited page in the chat form: https://platform.openai.com/docs/guides/tools-web-search. Undefined for other
 * annotations, such as cited files.
 */
function citationOf(
  { type, start_index: start, end_index: end, title, url }: JsonFields,
  before: number,
): JsonFields | undefined {
  if (type !== "url_citation" || typeof url !== "string") return undefined;
  if (typeof start !== "number" || typeof end !== "number") return undefined;
  const position = { start_index: before + start, end_index: before + end };
  return {
    type,
    url_citation: { ...position, title: typeof title === "string" ? title : "", url },
  };
}

/** Unicode characters; `length` counts UTF-16 units. */
function charactersOf(text: string): number {
  let count = 0;
  for (const _ of text) count += 1;
  return count;
}

function listOf(value: unknown): readonly JsonFields[] {
  return Array.isArray(value) ? value.filter(isJsonObject) : [];
}
