import type { OtherCounts } from "../../contract/figures.ts";
import type { GeneratedText } from "../../billing/estimate.ts";
import { bearsContent, type ChatChunk, type ChunkChoice } from "../../contract/chat/chatAnswer.ts";
import { finishReasonOf } from "../../contract/chat/finishReason.ts";
import type { StreamFailure } from "../../contract/errors.ts";
import { isImplausible, isTotalLarger, type Usage } from "../../contract/usage.ts";
import type { JsonFields } from "../../lib/json.ts";
import {
  BYTE_ORDER_MARK,
  createSseSplitter,
  type SseSplitter,
  type SseEvent,
} from "../../lib/sse.ts";
import { spanOf, type Span } from "../../lib/span.ts";
import { ANSWER_BYTES_MAX, answerText, type ReadChatEvent } from "../../providers/provider.ts";
import { reportedFailureOfText } from "../../providers/upstream.ts";
import {
  AnswerBuffer,
  ReportedUsage,
  type AnswerDecoder,
  type StoredObject,
  type UsageProblem,
} from "./answerDecoder.ts";
import type { AnswerForm } from "../translation/answerForm.ts";
import { publicChunk, type AnswerIdentity } from "./publicAnswer.ts";
import { ChoiceSet } from "./choiceSet.ts";
import { ChatStops } from "./stopSequences.ts";
import { ChunkTemplates } from "./chunkTemplate.ts";
import { StreamedCalls } from "./toolCalls.ts";
import {
  messageBytes,
  reasoningBytes,
  encryptedLengthOf,
  EncryptedReasoning,
} from "./generatedContent.ts";

// Each open stream has a decoder. These are shared.
const NO_COUNTS: OtherCounts = {};
const NO_SERVICES: readonly string[] = [];

/**
 * Decodes a chat stream. It parses each chunk, makes it public and writes it in the client's form, except chunks that
 * match a template.
 */
export class ChatDecoder implements AnswerDecoder {
  isClosed = false;
  readonly reportsFailure = false;
  model: unknown;
  textBytes = 0;
  textDeltas = 0;
  providerCalls = 0;
  counts: OtherCounts = NO_COUNTS;
  services: readonly string[] = NO_SERVICES;
  readonly #reasoning = new EncryptedReasoning();
  readonly #readEvent: ReadChatEvent;
  readonly #identity: AnswerIdentity;
  readonly #form: AnswerForm;
  readonly #choiceCount: number;
  /** Undefined if the provider itself applies the stop sequences. */
  readonly #stops: ChatStops | undefined;
  /** Undefined if the meaning of an event depends on earlier ones. */
  readonly #templates: ChunkTemplates | undefined;
  readonly #splitter: SseSplitter = createSseSplitter({ eventBytesMax: ANSWER_BYTES_MAX });
  /** The choices with content. */
  readonly #begunChoices = new ChoiceSet();
  readonly #finishedChoices = new ChoiceSet();
  readonly #calls: StreamedCalls;
  /** The choices that a stop sequence ended while the provider continues them. */
  readonly #stoppedChoices = new ChoiceSet();
  /** Keeps back the chunks with a finish reason. */
  readonly #buffer = new AnswerBuffer<string, ChatChunk>("the answer has too many final chunks");
  readonly #reported = new ReportedUsage();
  readonly #passthrough = new PassthroughFields();
  /** The usage as the provider reported it. */
  #usageObject: unknown;

  constructor(options: {
    readEvent: ReadChatEvent;
    identity: AnswerIdentity;
    form: AnswerForm;
    choiceCount: number;
    /** The stop sequences that the gateway applies. */
    stop?: readonly string[];
    /** The meaning of an event does not depend on earlier ones. */
    eventsStandAlone?: boolean;
  }) {
    this.#readEvent = options.readEvent;
    this.#identity = options.identity;
    this.#calls = new StreamedCalls(options.identity);
    this.#form = options.form;
    this.#choiceCount = options.choiceCount;
    const { form, stop = [], eventsStandAlone = false } = options;
    this.#stops = stop.length > 0 ? new ChatStops(stop) : undefined;
    const hasTemplates = form.isPlain && eventsStandAlone && stop.length === 0;
    this.#templates = hasTemplates ? new ChunkTemplates() : undefined;
  }

  get hasContent(): boolean {
    return this.#begunChoices.size > 0;
  }

  get usage(): Usage | undefined {
    return this.#reported.usage;
  }

  get encryptedReasoningBytes(): number {
    return this.#reasoning.encryptedReasoningBytes;
  }

  get usageText(): GeneratedText | undefined {
    return this.#reported.text;
  }

  get usageProblem(): UsageProblem | undefined {
    const { problem, usage } = this.#reported;
    const isLarger = usage !== undefined && isTotalLarger(this.#usageObject, usage);
    return problem ?? (isLarger ? "total above its parts" : undefined);
  }

  get finishReasons(): readonly string[] {
    return this.#buffer.kept.flatMap(({ choices }) =>
      choices.flatMap(({ finish_reason: reason }) => reason ?? []),
    );
  }

  get isUsageFinal(): boolean {
    return this.#reported.isFinal(this.isFinished, this.textBytes);
  }

  /** A provider may return fewer choices than requested. A choice that began must also end. */
  get isFinished(): boolean {
    if (this.#finishedChoices.size >= this.#choiceCount) return true;
    if (!this.isClosed || this.#finishedChoices.size === 0) return false;
    return this.#begunChoices.without(this.#finishedChoices).length === 0;
  }

  get isCutShort(): boolean {
    return this.#stoppedChoices.size > 0;
  }

  push(bytes: Uint8Array): void {
    for (const event of this.#splitter.push(bytes)) {
      const matched = this.#matchTemplate(spanOf(event.raw));
      if (matched === undefined) this.#read(event);
      else this.#buffer.send(matched, true);
    }
  }

  pass(span: Span): string | undefined {
    return this.#splitter.isBetweenEvents ? this.#matchTemplate(span) : undefined;
  }

  #matchTemplate(event: Span): string | undefined {
    const match =
      this.isClosed || !this.#passthrough.isEmpty ? undefined : this.#templates?.match(event);
    if (match) this.#countText(match.textBytes);
    return match?.clientEvent;
  }

  #countText(bytes: number): void {
    this.textBytes += bytes;
    if (bytes > 0) this.textDeltas += 1;
  }

  end(): void {
    // The SSE standard says that an incomplete last event is dropped.
    this.#close();
  }

  take(): string | undefined {
    return this.#buffer.take();
  }

  takeObjects(): readonly StoredObject[] {
    return [];
  }

  ending(billed: Usage): string {
    const { kept } = this.#buffer;
    const last = kept.at(-1);
    const held = last ? [...kept.slice(0, -1), this.#passthrough.addTo(last)] : kept;
    return this.#form.ending(held, billed, this.#usageObject);
  }

  failure(error: StreamFailure): string {
    return this.#releaseHeldText() + this.#form.failure(error);
  }

  #read(sseEvent: SseEvent): void {
    const { event, data, error } = sseEvent;
    if (this.isClosed) return;
    if (error !== undefined) throw reportedFailureOfText(error);
    if (data === undefined) return;
    const read = this.#readEvent({ event, data });
    if (read.kind === "done") {
      if (read.isWhole) this.#finishBegunChoices();
      this.#close();
    }
    if (read.kind !== "done") {
      this.#reasoning.addEncrypted(read.encryptedLength ?? 0);
      if (read.counts) this.counts = read.counts;
    }
    if (read.kind === "nothing" && read.ranTool) this.providerCalls += 1;
    if (read.kind !== "chunk") return;
    this.model ??= read.chunk["model"];
    if (read.services?.length) this.services = read.services;
    if (read.usage) {
      // Serialized once here, so that it cannot fail after the charge.
      answerText(read.chunk["usage"]);
      this.#usageObject = read.chunk["usage"];
    }
    const chunk = publicChunk(read.chunk, this.#identity, this.#calls);
    for (const { delta } of chunk.choices) {
      this.#reasoning.addText(reasoningBytes(delta));
      if (read.encryptedLength === undefined)
        this.#reasoning.addEncrypted(encryptedLengthOf(delta));
    }
    if (chunk.choices.length > 0) this.#relay(chunk, read.usage);
    else if (this.#isPassedThrough(read.chunk)) this.#passthrough.add(chunk);
    if (this.#templates && !read.usage) this.#learn(sseEvent, chunk, this.#templates);
    if (read.isLast) this.#close();
    if (!read.usage) return;
    const isAlone = chunk.choices.length === 0;
    // A usage before any finish reason, in a chunk with choices, is an early one.
    const hasEnded = isAlone || this.#finishedChoices.size > 0;
    const mayBeWhole = hasEnded && !read.isUsageEarly;
    const text = { bytes: this.textBytes, deltas: this.textDeltas };
    this.#reported.add(read.usage, text, isAlone, mayBeWhole);
  }

  /** A value without a list of choices is not a chunk but a keep-alive, for example. */
  #isPassedThrough({ choices }: JsonFields): boolean {
    return this.#identity.unknownFields === "forward" && Array.isArray(choices);
  }

  /** Makes a template from a chunk with text and nothing else. */
  #learn({ raw }: SseEvent, { choices }: ChatChunk, templates: ChunkTemplates): void {
    const [choice] = choices;
    if (choices.length !== 1 || !choice || choice.finish_reason !== null) return;
    // A byte order mark is only valid at the start of the stream.
    if (raw[0] === BYTE_ORDER_MARK[0]) return;
    const { content, ...others } = choice.delta;
    if (!content || Object.keys(others).length > 0) return;
    templates.learn(raw, content, (bytes) => {
      const [one] = createSseSplitter({ eventBytesMax: ANSWER_BYTES_MAX }).push(bytes);
      const read = this.#readEvent({ event: one?.event, data: one?.data ?? "" });
      if (read.kind !== "chunk") return undefined;
      const chunk = publicChunk(read.chunk, this.#identity, this.#calls);
      return {
        text: chunk.choices[0]?.delta.content ?? "",
        clientEvent: this.#form.chunk(chunk, undefined),
      };
    });
  }

  /** `usage`: the provider's report in this chunk. */
  #relay(chunk: ChatChunk, usage: Usage | undefined): void {
    const choices = this.#stops?.apply(chunk.choices) ?? chunk.choices;
    const { now: others, held } = this.#form.isPlain
      ? wholeChoices(choices)
      : splitChoices(choices);
    const extended = choices.length > 0 ? this.#passthrough.addTo(chunk) : chunk;
    // Throws if it cannot be serialized, before any of it counts as answered.
    const text = this.#form.chunk({ ...extended, choices: others }, this.#usageSoFar(usage));
    if (held.length > 0) this.#keep({ ...(others.length > 0 ? chunk : extended), choices: held });
    // All generated text is counted, whether the client gets it or not.
    for (const choice of chunk.choices) {
      this.#countText(messageBytes(choice.delta));
      const { index } = choice;
      if (!this.#begunChoices.has(index) && bearsContent(choice)) {
        this.#begunChoices.add(index);
      }
    }
    this.#buffer.send(text, this.hasContent);
    for (const { index, finish_reason } of choices) {
      if (finish_reason === null) continue;
      this.#finishedChoices.add(index);
      if (this.#stops) this.#stoppedChoices.add(index);
    }
    for (const { index, finish_reason } of chunk.choices) {
      if (finish_reason !== null) this.#stoppedChoices.delete(index);
    }
  }

  /** A report of a chunk comes before its content. */
  #usageSoFar(reported: Usage | undefined): Usage | undefined {
    return reported && !isImplausible(reported) ? reported : this.usage;
  }

  /** The provider reports a complete answer. Ends each choice that began and has no finish reason. */
  #finishBegunChoices(): void {
    const unended = this.#begunChoices.without(this.#finishedChoices);
    if (unended.length === 0) return;
    const choices = unended.map((index) => {
      this.#calls.end(index);
      const reason = finishReasonOf(undefined, this.#calls.hasBegun(index));
      return { index, delta: {}, finish_reason: reason };
    });
    this.#keep(this.#chunkOf(choices));
    for (const index of unended) this.#finishedChoices.add(index);
  }

  #close(): void {
    this.isClosed = true;
    this.#buffer.send(this.#releaseHeldText(), true);
  }

  /** Serializes the chunk once, so that it cannot fail after the charge. Throws AnswerError. */
  #keep(chunk: ChatChunk): void {
    this.#buffer.keep(chunk, answerText(chunk).length);
  }

  /** The text that was held back as the possible start of a stop sequence. */
  #releaseHeldText(): string {
    const choices = this.#stops?.release() ?? [];
    return choices.length > 0 ? this.#form.chunk(this.#chunkOf(choices), this.usage) : "";
  }

  #chunkOf(choices: readonly ChunkChoice[]): ChatChunk {
    const { id, model, created } = this.#identity;
    return { id, object: "chat.completion.chunk", created, model, choices };
  }
}

/** What is sent now, and what is held back until the charge is committed. */
interface RelayedChoices {
  readonly now: readonly ChunkChoice[];
  readonly held: readonly ChunkChoice[];
}

function wholeChoices(choices: readonly ChunkChoice[]): RelayedChoices {
  const now = choices.filter(({ finish_reason }) => finish_reason === null);
  return { now, held: choices.filter(({ finish_reason }) => finish_reason !== null) };
}

/** Holds back the finish reasons only. Another form may fail to write the content, which must not happen after the charge. */
function splitChoices(choices: readonly ChunkChoice[]): RelayedChoices {
  const held = choices.flatMap(({ index, finish_reason }) =>
    finish_reason === null ? [] : [{ index, delta: {}, finish_reason }],
  );
  return { now: choices.map((choice) => ({ ...choice, finish_reason: null })), held };
}

const PASSTHROUGH_FIELDS_MAX = 64;
const PASSTHROUGH_BYTES_MAX = 1024 * 1024;

/** Fields of each single chunk. `obfuscation` is padding that hides the length of a chunk. */
const NOT_PASSED_THROUGH: ReadonlySet<string> = new Set([
  "id",
  "object",
  "created",
  "model",
  "choices",
  "usage",
  "obfuscation",
]);

/**
 * Passthrough fields of chunks without choices, such as `prompt_filter_results` of Azure. The client does not get these
 * chunks. It gets the fields on the next chunk with choices. Fields above the two limits are dropped.
 */
class PassthroughFields {
  #fields = new Map<string, unknown>();
  #bytes = 0;

  get isEmpty(): boolean {
    return this.#fields.size === 0;
  }

  /** Adds the fields of a chunk without choices. Throws AnswerError if they cannot be serialized. */
  add(chunk: ChatChunk): void {
    for (const [name, value] of Object.entries(chunk)) {
      if (NOT_PASSED_THROUGH.has(name) || value === null) continue;
      this.#bytes += Buffer.byteLength(answerText({ [name]: value }));
      const isFull = this.#fields.size === PASSTHROUGH_FIELDS_MAX && !this.#fields.has(name);
      if (isFull || this.#bytes > PASSTHROUGH_BYTES_MAX) continue;
      this.#fields.set(name, value);
    }
  }

  /** Returns the chunk with the fields so far, and removes them here. The chunk's own fields win. */
  addTo(chunk: ChatChunk): ChatChunk {
    if (this.isEmpty) return chunk;
    const extended = { ...Object.fromEntries(this.#fields), ...chunk };
    this.#fields = new Map();
    this.#bytes = 0;
    return extended;
  }
}
