import type { GeneratedText } from "../../billing/estimate.ts";
import type { StreamFailure } from "../../contract/errors.ts";
import { isCodeRun } from "../../contract/messages/messagesAnswer.ts";
import { servicesOf } from "../../contract/serviceTier.ts";
import { laterUsage, readMessagesUsage, type Usage } from "../../contract/usage.ts";
import { fieldsOf, type JsonFields } from "../../lib/json.ts";
import { spanOf, type Span } from "../../lib/span.ts";
import { createSseSplitter, type SseEvent, type SseSplitter } from "../../lib/sse.ts";
import { ANSWER_BYTES_MAX } from "../../providers/provider.ts";
import { reportedFailureIn, reportedFailureOf } from "../../providers/upstream.ts";
import type { StreamChunk } from "../answer.ts";
import {
  AnswerBuffer,
  eventFields,
  ReportedUsage,
  type AnswerDecoder,
  type StoredObject,
  type UsageProblem,
} from "./answerDecoder.ts";
import { ChunkTemplates } from "./chunkTemplate.ts";
import { EncryptedReasoning } from "./generatedContent.ts";

/** Results of tools that the provider runs, such as `web_search_tool_result`. */
const SERVER_RESULT = /_tool_result$/;
/** Blocks whose content comes with their deltas. All others are content as soon as they start. */
const EMPTY_AT_START: ReadonlySet<unknown> = new Set(["text", "thinking", "redacted_thinking"]);

const BLANK_LINE = Buffer.from("\n\n");
const LINE_FEED = Buffer.from("\n");
const MESSAGE_STOP = Buffer.from('event: message_stop\ndata: {"type":"message_stop"}\n\n');

/**
 * Decodes a stream of Messages: https://platform.claude.com/docs/en/build-with-claude/streaming. It relays the provider's
 * bytes, also events that it does not know. The `message_delta` with the stop reason and all behind it are held back until
 * the charge.
 */
export class MessagesDecoder implements AnswerDecoder {
  hasContent = false;
  isFinished = false;
  isClosed = false;
  readonly reportsFailure = false;
  model: unknown;
  finishReasons: readonly unknown[] = [];
  textBytes = 0;
  textDeltas = 0;
  providerCalls = 0;
  readonly #failure: (error: StreamFailure) => string;
  readonly #runsCodeFree: boolean;
  readonly #reasoning = new EncryptedReasoning();
  readonly #reported = new ReportedUsage();
  readonly #templates = new ChunkTemplates();
  readonly #splitter: SseSplitter = createSseSplitter({ eventBytesMax: ANSWER_BYTES_MAX });
  /** Keeps back the events after the stop reason: one delta and one terminator. */
  readonly #buffer = new AnswerBuffer<Uint8Array>("the end of the answer is too long");
  #hasStop = false;
  #searches = 0;
  #runs = 0;
  /** The usage as the provider reported it so far. */
  #usage: JsonFields = {};

  /** `failure` makes the event that ends a failed stream. It must not retain the request. */
  constructor(failure: (error: StreamFailure) => string, runsCodeFree = false) {
    this.#failure = failure;
    this.#runsCodeFree = runsCodeFree;
  }

  get usage(): Usage | undefined {
    return this.#reported.usage;
  }

  get isUsageFinal(): boolean {
    return this.#reported.isFinal(this.isFinished, this.textBytes);
  }

  get usageText(): GeneratedText | undefined {
    return this.#reported.text;
  }

  get services(): readonly string[] {
    return servicesOf(this.#usage);
  }

  get usageProblem(): UsageProblem | undefined {
    return this.#reported.problem;
  }

  get encryptedReasoningBytes(): number {
    return this.#reasoning.encryptedReasoningBytes;
  }

  push(bytes: Uint8Array): void {
    for (const event of this.#splitter.push(bytes)) this.#read(event);
  }

  pass(span: Span): string | undefined {
    if (!this.#splitter.isBetweenEvents || this.isFinished) return undefined;
    const match = this.#templates.match(span);
    if (match) this.#countText(match.textBytes);
    return match?.clientEvent;
  }

  end(): void {
    const last = this.#splitter.end();
    // The SSE standard drops an incomplete last event. One that ends the answer is used if its data is complete.
    if (last && !this.isClosed && Object.keys(eventFields(last)()).length > 0)
      this.#parse(last, true);
    this.isClosed = true;
  }

  take(): Uint8Array | undefined {
    return this.#buffer.take();
  }

  takeObjects(): readonly StoredObject[] {
    return [];
  }

  ending(): StreamChunk {
    const pieces = [...this.#buffer.kept];
    const last = pieces.at(-1);
    // The network may split the last CRLF of an event. The splitter does not wait for its second half.
    if (last?.at(-1) === 0x0d && last.at(-2) === 0x0a) pieces.push(LINE_FEED);
    if (!this.#hasStop) pieces.push(MESSAGE_STOP);
    return Buffer.concat(pieces);
  }

  failure(error: StreamFailure): string {
    return this.#failure(error);
  }

  #read(event: SseEvent): void {
    // What follows the terminator is no part of the answer.
    if (this.isClosed) return;
    const match = this.isFinished ? undefined : this.#templates.match(spanOf(event.raw));
    if (!match) return this.#parse(event);
    this.#countText(match.textBytes);
    this.#buffer.send(event.raw, true);
  }

  /** `isCut`: the stream ended before the event did. */
  #parse(event: SseEvent, isCut = false): void {
    const { raw } = event;
    const fields = eventFields(event)();
    const type: unknown = fields["type"] ?? event.event;
    this.#readFields(type, fields);
    // A terminator without a stop reason ends no answer. The client gets an error instead.
    if (this.isFinished || this.isClosed) {
      const piece = isCut ? Buffer.concat([raw, BLANK_LINE]) : raw;
      this.#buffer.keep(piece, piece.byteLength);
    } else if (!isCut) {
      this.#buffer.send(raw, this.hasContent);
      this.#learn(raw, fieldsOf(fields["delta"]));
    }
  }

  #readFields(type: unknown, fields: JsonFields): void {
    switch (type) {
      case "message_start":
        this.model = fieldsOf(fields["message"])["model"];
        this.#reportStart(fieldsOf(fieldsOf(fields["message"])["usage"]));
        break;
      case "content_block_start":
        this.#startBlock(fieldsOf(fields["content_block"]));
        break;
      case "content_block_delta":
        this.#addDelta(fieldsOf(fields["delta"]));
        break;
      case "message_delta": {
        const { stop_reason: reason = null } = fieldsOf(fields["delta"]);
        this.isFinished ||= reason !== null;
        this.finishReasons = [reason];
        this.hasContent ||= this.isFinished;
        this.#report(fieldsOf(fields["usage"]), this.isFinished);
        break;
      }
      case "message_stop":
        this.#hasStop = true;
        this.isClosed = true;
        break;
      case "error":
        throw reportedFailureOf(fields);
      case undefined: {
        // Some compatible servers report a failure in an event without a type.
        const failure = reportedFailureIn(fields);
        if (failure) throw failure;
      }
    }
  }

  #startBlock(block: JsonFields): void {
    const { type, text, thinking, data, name } = block;
    this.hasContent ||= !EMPTY_AT_START.has(type);
    if (typeof type === "string" && SERVER_RESULT.test(type)) this.providerCalls += 1;
    if (type === "web_search_tool_result" && Array.isArray(block["content"]))
      this.#addToolUse(1, 0);
    else if (isCodeRun(block)) this.#addToolUse(0, 1);
    if (typeof data === "string") this.#reasoning.addEncrypted(data.length);
    if (typeof name === "string") this.#countText(Buffer.byteLength(name));
    this.#addText(text);
    this.#addReasoning(thinking);
  }

  #addDelta(delta: JsonFields): void {
    const { text, thinking, partial_json: input, signature, citation } = delta;
    this.#addText(text);
    this.#addReasoning(thinking);
    this.#addText(input);
    this.hasContent ||= citation !== undefined;
    if (typeof signature === "string") this.#reasoning.addEncrypted(signature.length);
  }

  #addText(text: unknown): void {
    if (typeof text !== "string" || text === "") return;
    this.hasContent = true;
    this.#countText(Buffer.byteLength(text));
  }

  #addReasoning(text: unknown): void {
    if (typeof text === "string") this.#reasoning.addText(Buffer.byteLength(text));
    this.#addText(text);
  }

  #countText(bytes: number): void {
    this.textBytes += bytes;
    if (bytes > 0) this.textDeltas += 1;
  }

  /**
   * The count of output tokens in `message_start` is a placeholder. It must not hide an impossible count at the end.
   */
  #reportStart(reported: JsonFields): void {
    this.#usage = { ...reported, output_tokens: undefined };
    this.#addUsage({ ...reported, output_tokens: 0 }, false);
  }

  #report(reported: JsonFields, isWhole: boolean): void {
    this.#usage = laterUsage(this.#usage, reported);
    this.#addUsage(this.#usage, isWhole && reported["output_tokens"] !== undefined);
  }

  #addUsage(reported: JsonFields, mayBeWhole: boolean): void {
    const usage = readMessagesUsage(reported, this.#runsCodeFree);
    if (!usage) return;
    const text = { bytes: this.textBytes, deltas: this.textDeltas };
    this.#reported.add(usage, text, false, mayBeWhole);
  }

  /**
   * A search with results is billed, and a run of code, also if the end of the answer, which has the counts, never comes. No
   * output tokens may be known yet, and a usage without them is none.
   */
  #addToolUse(searches: number, runs: number): void {
    this.#searches += searches;
    this.#runs += runs;
    const uses = { web_search_requests: this.#searches, code_execution_requests: this.#runs };
    this.#usage = laterUsage(this.#usage, { server_tool_use: uses });
    this.#addUsage({ ...this.#usage, output_tokens: this.#usage["output_tokens"] ?? 0 }, false);
  }

  /** Makes a template from an event with text and nothing else. */
  #learn(raw: Uint8Array, { type, text }: JsonFields): void {
    if (type !== "text_delta" || typeof text !== "string" || text === "") return;
    this.#templates.learn(raw, text, (bytes) => {
      const [one] = createSseSplitter({ eventBytesMax: ANSWER_BYTES_MAX }).push(bytes);
      const delta = one ? fieldsOf(eventFields(one)()["delta"]) : {};
      if (typeof delta["text"] !== "string") return undefined;
      return { text: delta["text"], clientEvent: Buffer.from(bytes).toString() };
    });
  }
}
