import { isJsonObject, type JsonFields } from "../../lib/json.ts";
import { AnswerError, answerText, ExcessiveAnswerError } from "../provider.ts";

/** What is new of an answer, in the words of the chat convention; `index` tells calls apart in a stream. */
export interface Said {
  content?: string;
  refusal?: string;
  reasoning_content?: string;
  tool_calls?: SaidCall[];
  /** The pages that the text cites, and where in it. */
  annotations?: JsonFields[];
  /** Of the tokens of the text. They stand in the choice, beside what it says. */
  logprobs?: JsonFields[];
}

export interface SaidCall {
  readonly index: number;
  readonly id?: string;
  readonly type?: "function" | "custom";
  function?: { name?: string; arguments: string };
  custom?: { name?: string; input: string };
}

/** What a response consists of, as far as a chat has a place for it. */
type Kind = "text" | "refusal" | "summary" | "reasoning" | "logprobs" | "annotations";

/** Far more calls than any model makes in one answer. */
const CALLS_MAX = 1024;
/** Of all that tells the calls of an answer apart: as much as an answer in JSON may have. */
const CALL_CHARACTERS_MAX = 32 * 1024 * 1024;
/** As JSON. They are kept for the answer's end: those beyond it are dropped, for a provider may cite for ever. */
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
 * Puts together what a response says, and says everything once. The interface says it up to four times:
 * in deltas, at the end of a part, at the end of an item and in the whole response. Servers that imitate
 * it leave some of these out. So each kind of content is taken from the first type of event (the
 * `source`) that brought any of it, and from no other; the arguments of a call from the first that brought hers.
 */
export class ResponsesOutput {
  readonly #sources = new Map<Kind, string>();
  readonly #calls: Call[] = [];
  #callCharacters = 0;
  #reasoningPart: string | undefined;
  /** The characters of the texts that were annotated so far, by the source that brought them. */
  readonly #annotatedCharacters = new Map<string, number>();
  readonly #citations: JsonFields[] = [];
  #citationCharacters = 0;
  #said: Said = {};

  /** The answer calls a tool. */
  get callsTools(): boolean {
    return this.#calls.length > 0;
  }

  /** Something was said since the last time. */
  get hasNews(): boolean {
    return Object.keys(this.#said).length > 0;
  }

  /** What was said since the last time. */
  take(): Said {
    const said = this.#said;
    this.#said = {};
    return said;
  }

  /** The same at the answer's end, with all that it cites: clients keep of several lists the last one, or fail at it. */
  takeLast(): Said {
    const said = this.take();
    return this.#citations.length > 0 ? { ...said, annotations: this.#citations } : said;
  }

  /** A piece of a text, or the whole. `part` tells the parts of reasoning apart. */
  say(kind: Kind, source: string, value: unknown, part = ""): void {
    const text = textOf(value);
    if (text === "" || (this.#sources.get(kind) ?? source) !== source) return;
    this.#sources.set(kind, source);
    if (kind === "text") this.#said.content = (this.#said.content ?? "") + text;
    else if (kind === "refusal") this.#said.refusal = (this.#said.refusal ?? "") + text;
    else this.#reason(text, `${kind} ${part}`);
  }

  /** Probabilities of tokens, each in the form of a chat, which has all of its fields. */
  sayLogprobs(source: string, value: unknown): void {
    const tokens = listOf(value);
    if (tokens.length === 0 || (this.#sources.get("logprobs") ?? source) !== source) return;
    this.#sources.set("logprobs", source);
    const said = (this.#said.logprobs ??= []);
    for (const token of tokens) {
      said.push({ ...tokenOf(token), top_logprobs: listOf(token["top_logprobs"]).map(tokenOf) });
    }
  }

  /** A finished item, whole. Items of other types are the provider's own work, and a chat has no place for them. */
  sayItem(item: unknown, source: string, outputIndex: unknown): void {
    if (!isJsonObject(item)) return;
    switch (item["type"]) {
      case "message":
        for (const part of listOf(item["content"])) {
          if (part["type"] === "output_text") {
            this.say("text", source, part["text"]);
            this.sayLogprobs(source, part["logprobs"]);
            this.#annotate(source, part);
          }
          if (part["type"] === "refusal") this.say("refusal", source, part["refusal"]);
        }
        break;
      case "reasoning":
        for (const [at, part] of listOf(item["summary"]).entries()) {
          this.say("summary", source, part["text"], `${String(outputIndex)} ${at}`);
        }
        for (const [at, part] of listOf(item["content"]).entries()) {
          this.say("reasoning", source, part["text"], `${String(outputIndex)} ${at}`);
        }
        break;
      case "function_call":
      case "custom_tool_call": {
        const call = this.openCall(item, outputIndex);
        this.addToCall(call, source, item["arguments"] ?? item["input"]);
      }
    }
  }

  /** Begins a call, unless that was done. What it is called with is left to its deltas and its end. */
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
    this.#sayCall({ index, id: callId, type, ...opened });
    return call;
  }

  /**
   * The call that an event is about; undefined where its item never began, and is yet to come. The place
   * among the items comes first: there are servers whose ids change from event to event.
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
    const opened = this.#said.tool_calls?.find((one) => one.index === index);
    if (opened?.function) opened.function.arguments += text;
    else if (opened?.custom) opened.custom.input += text;
    else if (type === "custom") this.#sayCall({ index, custom: { input: text } });
    else this.#sayCall({ index, function: { arguments: text } });
  }

  /** Where a page is cited is counted in its own text; a chat has all texts of an answer as one. */
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

  /** Between two parts of the reasoning stands a blank line, as between paragraphs. */
  #reason(text: string, part: string): void {
    const isNext = this.#reasoningPart !== undefined && this.#reasoningPart !== part;
    this.#reasoningPart = part;
    const before = this.#said.reasoning_content ?? "";
    this.#said.reasoning_content = before + (isNext ? "\n\n" : "") + text;
  }

  #sayCall(call: SaidCall): void {
    (this.#said.tool_calls ??= []).push(call);
  }
}

function textOf(value: unknown): string {
  if (value === undefined || value === null) return "";
  if (typeof value !== "string") throw new AnswerError("a text is none");
  return value;
}

/** A token in chat's form, which always has `bytes`; the pieces of a stream may leave them out. */
function tokenOf({ token, logprob, bytes }: JsonFields): JsonFields {
  return { token, logprob, bytes: bytes ?? null };
}

/**
 * A cited page in the form of a chat: https://platform.openai.com/docs/guides/tools-web-search. Undefined for what a
 * chat has no place for, such as a cited file.
 */
function citationOf(
  { type, start_index: start, end_index: end, title, url }: JsonFields,
  before: number,
): JsonFields | undefined {
  if (type !== "url_citation" || typeof url !== "string") return undefined;
  if (typeof start !== "number" || typeof end !== "number") return undefined;
  const place = { start_index: before + start, end_index: before + end };
  return { type, url_citation: { ...place, title: typeof title === "string" ? title : "", url } };
}

/** Unicode's own, of which the length of a string counts some twice. */
function charactersOf(text: string): number {
  let count = 0;
  for (const _ of text) count += 1;
  return count;
}

function listOf(value: unknown): readonly JsonFields[] {
  return Array.isArray(value) ? value.filter(isJsonObject) : [];
}
