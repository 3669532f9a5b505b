import { upstreamFailure, type StreamFailure } from "../../contract/errors.ts";
import {
  isProviderCall,
  providerCallsOf,
  measureItem,
} from "../../contract/responses/responsesRequest.ts";
import { readResponsesUsage, type Usage } from "../../contract/usage.ts";
import { isJsonObject, type JsonFields } from "../../lib/json.ts";
import { lazy } from "../../lib/lazy.ts";
import { createSseSplitter, type SseSplitter, type SseEvent } from "../../lib/sse.ts";
import { AnswerError, ExcessiveAnswerError, parseAnswerJson } from "../../providers/provider.ts";
import { reportedFailureIn, reportedFailureOf } from "../../providers/upstream.ts";
import { ANSWER_BYTES_MAX, type AnswerDecoder, type StoredObject } from "./answerDecoder.ts";
import { outputBytes, EncryptedReasoning } from "./generatedContent.ts";
import { estimateTokens } from "../../billing/estimate.ts";
import { sha256 } from "../../lib/sha256.ts";

/** What the model says comes in these. All else but calls only opens the answer; another provider may still begin it anew. */
const SAYING_EVENT = /\.(?:delta|done)$/;
/** An item that is content as soon as it is there: the model has called a tool, its own or the provider's. */
const CALL_ITEM = /_call$/;
/** What may open an answer: two events, each of which may say the whole request again. */
const OPENING_BYTES_MAX = 2 * ANSWER_BYTES_MAX;
const TERMINAL_EVENTS = new Set(["response.completed", "response.incomplete", "response.failed"]);
/** Pieces of sound as base64, whose bytes tell nothing of tokens; their transcript has events of its own. */
const SOUND = /audio\.delta$/;
const THOUGHT = /^response\.reasoning/;

/** Ends an event behind any line, be that ended or not. */
const BLANK_LINE = Buffer.from("\n\n");
const LINE_FEED = 0x0a;
const CARRIAGE_RETURN = 0x0d;

/** A responses stream: the provider's own bytes, with the terminal event kept back until the charge. */
export class ResponsesDecoder implements AnswerDecoder {
  hasContent = false;
  isThinking = false;
  isFinished = false;
  reportsFailure = false;
  usage: Usage | undefined;
  providerCalls = 0;
  textBytes = 0;
  textDeltas = 0;
  readonly #reasoning = new EncryptedReasoning();
  readonly #splitter: SseSplitter = createSseSplitter({ eventBytesMax: ANSWER_BYTES_MAX });
  #output: Uint8Array[] = [];
  #heldBack: Uint8Array[] = [];
  readonly #objects = new StoredObjectCollector();
  #eventCount = 0;
  #openingBytes = 0;
  /** One read ended in `data: {...}\r\n\r`, the end of the terminal event, and the next may begin with its `\n`. */
  #lacksLineFeed = false;

  /** A response bears its usage at its end only. */
  get isUsageFinal(): boolean {
    return this.usage !== undefined;
  }

  get encryptedReasoningBytes(): number {
    return this.#reasoning.encryptedReasoningBytes;
  }

  get isClosed(): boolean {
    return this.isFinished && !this.#lacksLineFeed;
  }

  push(bytes: Uint8Array): void {
    if (this.#lacksLineFeed) {
      this.#endLine(bytes);
      return;
    }
    for (const event of this.#splitter.push(bytes)) this.#read(event);
    const [terminal] = this.#heldBack;
    this.#lacksLineFeed = bytes.at(-1) === CARRIAGE_RETURN && endsInLineEnd(terminal);
  }

  end(): void {
    this.#lacksLineFeed = false;
    const last = this.#splitter.end();
    // An event that the end cut off is no event, as the standard says; the answer's own end lacks nothing that matters.
    if (!last || this.isFinished) return;
    const fields = fieldsOf(last);
    if (!TERMINAL_EVENTS.has(eventType(last, fields) ?? "")) return;
    this.#read(last, fields);
    // A client that follows the standard drops an event without a blank line behind it.
    this.#heldBack.push(BLANK_LINE);
  }

  take(): Uint8Array | undefined {
    if (this.#output.length === 0) return undefined;
    const output = this.#output;
    this.#output = [];
    return output.length === 1 ? output[0] : Buffer.concat(output);
  }

  takeObjects(): readonly StoredObject[] {
    return this.#objects.take();
  }

  ending(): Uint8Array {
    return Buffer.concat(this.#heldBack);
  }

  failure(): string {
    return responsesFailure(this.#eventCount);
  }

  #read(event: SseEvent, fields = fieldsOf(event)): void {
    // What follows the terminal event is no part of the answer.
    if (this.isFinished) return;
    const type = eventType(event, fields);
    const failure = failureIn(type, fields);
    if (failure) throw failure;
    if (type !== undefined && TERMINAL_EVENTS.has(type)) {
      this.#finish(type, event.raw, fields());
      return;
    }
    // What is too much throws here: it is not handed on, and begins no answer.
    if (type !== undefined) this.#readNamed(type, fields);
    this.#output.push(event.raw);
    if (!this.hasContent) this.#open(event.raw, type, fields);
  }

  #readNamed(type: string, fields: EventFields): void {
    if (type === "response.created") this.#objects.add(responseIn(fields()), { isWhole: false });
    else if (type === "response.output_item.done") this.#readItem(fields()["item"]);
    else if (type.endsWith(".delta") && !SOUND.test(type)) this.#readDelta(type, fields());
    this.#eventCount += 1;
  }

  #readDelta(type: string, { delta }: JsonFields): void {
    if (typeof delta !== "string") return;
    const bytes = Buffer.byteLength(delta);
    this.textBytes += bytes;
    if (bytes > 0) this.textDeltas += 1;
    if (THOUGHT.test(type)) this.#reasoning.addText(bytes);
  }

  /** A whole item, known here of a client that leaves before the end. */
  #readItem(item: unknown): void {
    if (!isJsonObject(item)) return;
    if (isProviderCall(item)) this.providerCalls += 1;
    const { encrypted_content: sealed } = item;
    if (typeof sealed === "string") this.#reasoning.addEncrypted(sealed.length);
  }

  /** What comes before the content is kept until then, but not without end. */
  #open(raw: Uint8Array, type: string | undefined, fields: EventFields): void {
    const item = type === "response.output_item.added" ? itemTypeIn(fields()) : "";
    this.hasContent = CALL_ITEM.test(item) || SAYING_EVENT.test(type ?? "");
    this.isThinking ||= item === "reasoning";
    this.#openingBytes += raw.byteLength;
    if (!this.hasContent && this.#openingBytes > OPENING_BYTES_MAX) {
      throw new AnswerError("the answer does not begin");
    }
  }

  /** The network cut the last CRLF of the answer in two: the LF, if it was to come, comes first. */
  #endLine(bytes: Uint8Array): void {
    this.#lacksLineFeed = false;
    if (bytes[0] === LINE_FEED) this.#heldBack.push(bytes.subarray(0, 1));
  }

  #finish(type: string, raw: Uint8Array, fields: JsonFields): void {
    const response = responseIn(fields);
    this.#heldBack.push(raw);
    // First of all: it is paid for, even if the rest of the event is too much.
    this.usage = readResponsesUsage(response["usage"]);
    this.providerCalls = Math.max(this.providerCalls, providerCallsOf(response["output"]));
    // A provider that sends no deltas has said all the same what stands here.
    if (!this.usage) this.textBytes = Math.max(this.textBytes, outputBytes(response["output"]));
    this.#objects.add(response, { isWhole: true });
    this.reportsFailure = type === "response.failed";
    this.hasContent = true;
    this.isFinished = true;
  }
}

/** The event that ends a failed stream, in the interface's own form; `sequence` counts the events before it. */
export function responsesFailure(sequence: number, error: StreamFailure = upstreamFailure): string {
  const event = {
    type: "error",
    code: String(error.code ?? error.type),
    message: error.message,
    param: error.param ?? null,
    sequence_number: sequence,
  };
  return `event: error\ndata: ${JSON.stringify(event)}\n\n`;
}

/** Whether an LF is to follow: the lines end with CRLF, and the last one with its CR. */
function endsInLineEnd(event: Uint8Array | undefined): boolean {
  return event?.at(-1) === CARRIAGE_RETURN && event.at(-2) === LINE_FEED;
}

/** What stands in an event's data, which is read when that is first asked for: most events pass by their name alone. */
type EventFields = () => JsonFields;

/** The client gets the bytes whether they are UTF-8 or not, and the end must be found in any case. */
function fieldsOf(event: SseEvent): EventFields {
  return lazy(() => {
    const data = event.lenientData;
    if (data === undefined) return {};
    try {
      const value = parseAnswerJson(data);
      return isJsonObject(value) ? value : {};
    } catch (error) {
      if (error instanceof ExcessiveAnswerError) throw error;
      return {};
    }
  });
}

/** The name of the event where it is one of this interface's; else its data says what it is. */
function eventType({ event: name }: SseEvent, fields: EventFields): string | undefined {
  if (name !== undefined && (name.startsWith("response.") || name === "error")) return name;
  const { type } = fields();
  return typeof type === "string" ? type : name;
}

/** Some imitators report a failure as in a chat, in an event without a type. */
function failureIn(type: string | undefined, fields: EventFields): AnswerError | undefined {
  if (type === "error") return reportedFailureOf(fields());
  return type === undefined ? reportedFailureIn(fields()) : undefined;
}

function itemTypeIn({ item }: JsonFields): string {
  return isJsonObject(item) && typeof item["type"] === "string" ? item["type"] : "";
}

function responseIn({ response }: JsonFields): JsonFields {
  if (!isJsonObject(response)) throw new AnswerError("a response event has no response");
  return response;
}

/** The only call whose output names it by `id`, and clients write its `call_id` there as with every other. */
const LOCAL_SHELL_CALL = "local_shell_call";

/** Far more than any answer needs: each is recorded as the account's own. */
const OUTPUT_ITEMS_MAX = 1024;
/** Of a whole stream: as many as one response can name, which is itself and four for each of its items. */
const OBJECTS_MAX = 1 + 4 * OUTPUT_ITEMS_MAX;

/** What a stream names: its events may say the same response, or another, again and again. */
class StoredObjectCollector {
  /** SHA-256 of the ids so far: they themselves may be as long as an event, or all have one hash in the engine's sets. */
  readonly #hashes = new Set<string>();
  #untaken: StoredObject[] = [];

  /**
   * Takes what an event's response names, as far as no event before it did. With the last one, which `isWhole`, all
   * comes once more: only then is known what each brings into a prompt. Throws ExcessiveAnswerError for too many, and takes none.
   */
  add(response: JsonFields, { isWhole }: { isWhole: boolean }): void {
    const named = objectsOf(response).map((object) => ({
      object,
      hash: sha256(object.id).toHex(),
    }));
    const added = isWhole ? named : named.filter(({ hash }) => !this.#hashes.has(hash));
    for (const { hash } of added) this.#hashes.add(hash);
    if (this.#hashes.size > OBJECTS_MAX)
      throw new ExcessiveAnswerError("the answer names too many objects");
    this.#untaken.push(...added.map(({ object }) => object));
  }

  /** What was taken since the last call. */
  take(): readonly StoredObject[] {
    const untaken = this.#untaken;
    this.#untaken = [];
    return untaken;
  }
}

/**
 * A response, its output items and the containers that these ran in: what its account may name again. A client that
 * sends the items back names the containers too. Throws ExcessiveAnswerError for too many items.
 */
export function objectsOf(response: JsonFields): StoredObject[] {
  const output: readonly unknown[] = Array.isArray(response["output"]) ? response["output"] : [];
  if (output.length > OUTPUT_ITEMS_MAX)
    throw new ExcessiveAnswerError("the answer has too many items");
  const objects: StoredObject[] = [];
  const add = (id: unknown, tokens: number | undefined): void => {
    if (typeof id === "string") objects.push({ id, tokens });
  };
  add(response["id"], undefined);
  for (const item of output.filter(isJsonObject)) {
    const { id, type, call_id, container_id, environment } = item;
    add(id, tokensOf(item));
    if (type === LOCAL_SHELL_CALL) add(call_id, 0);
    add(container_id, 0);
    if (isJsonObject(environment)) add(environment["container_id"], 0);
  }
  return objects;
}

/** A reference to an item stands for all of it: it counts what the item itself would in its place. */
function tokensOf(item: JsonFields): number {
  const { textBytes, nonTextParts } = measureItem(item);
  return estimateTokens(textBytes, nonTextParts);
}
