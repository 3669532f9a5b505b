import type { OtherCounts } from "../../contract/figures.ts";
import type { StreamFailure } from "../../contract/errors.ts";
import {
  COUNTED_FROM_BEGINNING,
  finishReasonsOf,
  isProviderCall,
  ItemCounter,
  measureItem,
  providerCallsOf,
  toolCountsOf,
} from "../../contract/responses.ts";
import { servicesOf } from "../../contract/serviceTier.ts";
import { readResponsesUsage, type Usage } from "../../contract/usage.ts";
import { isJsonObject, type JsonFields } from "../../lib/json.ts";
import { createSseSplitter, type SseSplitter, type SseEvent } from "../../lib/sse.ts";
import { ANSWER_BYTES_MAX, AnswerError, ExcessiveAnswerError } from "../../providers/provider.ts";
import { reportedFailureIn, reportedFailureOf } from "../../providers/upstream.ts";
import {
  AnswerBuffer,
  eventFields,
  type AnswerDecoder,
  type EventFields,
  type StoredObject,
} from "./answerDecoder.ts";
import { outputBytes, EncryptedReasoning } from "./generatedContent.ts";
import { estimateTokens } from "../../billing/estimate.ts";
import { sha256 } from "../../lib/sha256.ts";

/** Events with content. Before them, and before calls, failover is still possible. */
const CONTENT_EVENT = /\.(?:delta|done)$/;
/** Items that are content as soon as they are added: calls of tools, also of the provider's. */
const CALL_ITEM = /_call$/;
const TERMINAL_EVENTS = new Set(["response.completed", "response.incomplete", "response.failed"]);
/** Audio as base64. It does not count; its transcript has its own events. */
const AUDIO = /audio\.delta$/;
const REASONING_EVENT = /^response\.reasoning/;

/** Ends an event, whether or not its last line has ended. */
const BLANK_LINE = Buffer.from("\n\n");
const LINE_FEED = 0x0a;
const CARRIAGE_RETURN = 0x0d;

/** Decodes a responses stream. It relays the provider's bytes and holds the last event back until the charge. */
export class ResponsesDecoder implements AnswerDecoder {
  hasContent = false;
  isFinished = false;
  reportsFailure = false;
  usage: Usage | undefined;
  model: unknown;
  finishReasons: readonly string[] = [];
  providerCalls = 0;
  readonly #items = new ItemCounter();
  services: readonly string[] = [];
  textBytes = 0;
  textDeltas = 0;
  readonly #reasoning = new EncryptedReasoning();
  readonly #splitter: SseSplitter = createSseSplitter({ eventBytesMax: ANSWER_BYTES_MAX });
  /** Keeps back the last event. Two events before the content may each repeat the whole request. */
  readonly #buffer = new AnswerBuffer<Uint8Array>("the end of the answer is too long");
  readonly #objects = new StoredObjectCollector();
  #eventCount = 0;
  /**
   * A read ended with the last event and `\r
   * \r`. The next read may begin with the missing `
   * `.
   */
  #lacksLineFeed = false;

  /** A response reports its usage only at its end. */
  get isUsageFinal(): boolean {
    return this.usage !== undefined;
  }

  get counts(): OtherCounts {
    return this.#items.counts;
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
    const [terminal] = this.#buffer.kept;
    this.#lacksLineFeed = bytes.at(-1) === CARRIAGE_RETURN && endsInLineEnd(terminal);
  }

  end(): void {
    this.#lacksLineFeed = false;
    const last = this.#splitter.end();
    // The SSE standard drops an incomplete last event. An event that ends the answer is used if its data is complete.
    if (!last || this.isFinished) return;
    const fields = eventFields(last);
    if (!TERMINAL_EVENTS.has(eventType(last, fields) ?? "")) return;
    this.#read(last, fields);
    // A client that follows the standard drops an event without a blank line after it.
    this.#buffer.keep(BLANK_LINE, BLANK_LINE.length);
  }

  take(): Uint8Array | undefined {
    return this.#buffer.take();
  }

  takeObjects(): readonly StoredObject[] {
    return this.#objects.take();
  }

  ending(): Uint8Array {
    return Buffer.concat(this.#buffer.kept);
  }

  failure(error: StreamFailure): string {
    return responsesFailure(this.#eventCount, error);
  }

  #read(event: SseEvent, fields = eventFields(event)): void {
    // What follows the last event is no part of the answer.
    if (this.isFinished) return;
    const type = eventType(event, fields);
    const failure = failureIn(type, fields);
    if (failure) throw failure;
    if (type !== undefined && TERMINAL_EVENTS.has(type)) {
      this.#finish(type, event.raw, fields());
      return;
    }
    // Throws for an excessive event, before it is relayed or counts as content.
    if (type !== undefined) this.#readNamed(type, fields);
    // Most items that begin need no reading.
    if (type === "response.output_item.added" && mayCount(event.raw))
      this.#items.begin(fields()["item"]);
    this.hasContent ||= isContent(type, fields);
    this.#buffer.send(event.raw, this.hasContent);
  }

  #readNamed(type: string, fields: EventFields): void {
    if (type === "response.created") this.#begin(responseIn(fields()));
    else if (type === "response.output_item.done") this.#readItem(fields()["item"]);
    else if (type.endsWith(".delta") && !AUDIO.test(type)) this.#readDelta(type, fields());
    this.#eventCount += 1;
  }

  #begin(response: JsonFields): void {
    this.#objects.add(response, { isWhole: false });
    this.#items.readTools(response["tools"]);
  }

  #readDelta(type: string, { delta }: JsonFields): void {
    if (typeof delta !== "string") return;
    const bytes = Buffer.byteLength(delta);
    this.textBytes += bytes;
    if (bytes > 0) this.textDeltas += 1;
    if (REASONING_EVENT.test(type)) this.#reasoning.addText(bytes);
  }

  /** Counts a complete item, for the charge after a disconnect. */
  #readItem(item: unknown): void {
    if (!isJsonObject(item)) return;
    if (isProviderCall(item)) this.providerCalls += 1;
    this.#items.add(item);
    const { encrypted_content: encrypted } = item;
    if (typeof encrypted === "string") this.#reasoning.addEncrypted(encrypted.length);
  }

  /** Takes the LF if the network split the last CRLF of the answer. */
  #endLine(bytes: Uint8Array): void {
    this.#lacksLineFeed = false;
    if (bytes[0] === LINE_FEED) this.#buffer.keep(bytes.subarray(0, 1), 1);
  }

  #finish(type: string, raw: Uint8Array, fields: JsonFields): void {
    const response = responseIn(fields);
    this.#buffer.keep(raw, raw.byteLength);
    // The usage comes first: it is charged even if the rest of the event throws.
    this.usage = readResponsesUsage(response["usage"], toolCountsOf(response, this.#items));
    this.model = response["model"];
    this.services = servicesOf(response);
    this.finishReasons = finishReasonsOf(response);
    this.providerCalls = Math.max(this.providerCalls, providerCallsOf(response["output"]));
    // Some providers send no deltas.
    if (!this.usage) this.textBytes = Math.max(this.textBytes, outputBytes(response["output"]));
    this.#objects.add(response, { isWhole: true });
    this.reportsFailure = type === "response.failed";
    this.hasContent = true;
    this.isFinished = true;
  }
}

/**
 * The event that ends a failed stream. `sequence` is the number of events before it. It has its fields twice: as the
 * interface documents them, and in an object, because many clients raise nothing else: OpenAI's for Python, and for
 * JavaScript before 7, the AI SDK 5 and Continue.
 */
export function responsesFailure(sequence: number, error: StreamFailure): string {
  const { type, message, param = null } = error;
  const fields = { code: String(error.code ?? type), message, param };
  const event = { type: "error", ...fields, sequence_number: sequence, error: { type, ...fields } };
  return `event: error\ndata: ${JSON.stringify(event)}\n\n`;
}

/** Whether the event ends with `\n\r`, so that an LF may follow. */
function endsInLineEnd(event: Uint8Array | undefined): boolean {
  return event?.at(-1) === CARRIAGE_RETURN && event.at(-2) === LINE_FEED;
}

/** The event's name if it is one of this interface, else the `type` in its data. */
function eventType({ event: name }: SseEvent, fields: EventFields): string | undefined {
  if (name !== undefined && (name.startsWith("response.") || name === "error")) return name;
  const { type } = fields();
  return typeof type === "string" ? type : name;
}

/** Some compatible servers report a failure as in a chat stream, in an event without a type. */
function failureIn(type: string | undefined, fields: EventFields): AnswerError | undefined {
  if (type === "error") return reportedFailureOf(fields());
  return type === undefined ? reportedFailureIn(fields()) : undefined;
}

function mayCount(raw: Uint8Array): boolean {
  const bytes = Buffer.from(raw.buffer, raw.byteOffset, raw.byteLength);
  return COUNTED_FROM_BEGINNING.some((text) => bytes.includes(text));
}

function isContent(type: string | undefined, fields: EventFields): boolean {
  const item = type === "response.output_item.added" ? itemTypeIn(fields()) : "";
  return CALL_ITEM.test(item) || CONTENT_EVENT.test(type ?? "");
}

function itemTypeIn({ item }: JsonFields): string {
  return isJsonObject(item) && typeof item["type"] === "string" ? item["type"] : "";
}

function responseIn({ response }: JsonFields): JsonFields {
  if (!isJsonObject(response)) throw new AnswerError("a response event has no response");
  return response;
}

/** The output of this call names it by `id`, but clients put its `call_id` there, as for all other calls. */
const LOCAL_SHELL_CALL = "local_shell_call";

/** A limit far above any real answer. Each item is recorded for its account. */
const OUTPUT_ITEMS_MAX = 1024;
/** The limit for one stream: the response, and four objects for each of its items. */
const OBJECTS_MAX = 1 + 4 * OUTPUT_ITEMS_MAX;

/** Collects the stored objects that the events of a stream name, each once. */
class StoredObjectCollector {
  /** SHA-256 of the ids so far. The ids may be very long, or may collide in the engine's hash tables. */
  readonly #hashes = new Set<string>();
  #pending: StoredObject[] = [];

  /**
   * Adds the objects of a response that are new. If the response `isWhole`, adds all of them again, because only now their
   * tokens are known. Throws ExcessiveAnswerError for too many, and adds none.
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
    this.#pending.push(...added.map(({ object }) => object));
  }

  /** Returns the objects that were added since the last call. */
  take(): readonly StoredObject[] {
    const pending = this.#pending;
    this.#pending = [];
    return pending;
  }
}

/**
 * The stored objects of a response: itself, its output items and the containers of the items. A client that sends the
 * items back also names the containers. Throws ExcessiveAnswerError for too many items.
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

/** A reference to an item counts as many tokens as the item itself. */
function tokensOf(item: JsonFields): number {
  const { textBytes, nonTextParts } = measureItem(item);
  return estimateTokens(textBytes, nonTextParts);
}
