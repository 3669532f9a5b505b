import type { GeneratedText } from "../../billing/estimate.ts";
import {
  bearsContent,
  DONE,
  failureChunk,
  finishReasonOf,
  type ChatChunk,
  type ChunkChoice,
} from "../../contract/chat/chatAnswer.ts";
import { upstreamFailure, type StreamFailure } from "../../contract/errors.ts";
import { type Usage, hasDecreased, isImplausible, largerUsage } from "../../contract/usage.ts";
import type { JsonFields } from "../../lib/json.ts";
import {
  BYTE_ORDER_MARK,
  createSseSplitter,
  type SseSplitter,
  type SseEvent,
} from "../../lib/sse.ts";
import { spanOf, type Span } from "../../lib/span.ts";
import { AnswerError, answerText, type ReadChatEvent } from "../../providers/provider.ts";
import { reportedFailureOfText } from "../../providers/upstream.ts";
import {
  ANSWER_BYTES_MAX,
  type AnswerDecoder,
  type StoredObject,
  type UsageProblem,
} from "./answerDecoder.ts";
import {
  callsTool,
  publicChunk,
  visibleChunk,
  withUsage,
  type AnswerIdentity,
} from "./publicAnswer.ts";
import { ChatStops } from "./stopSequences.ts";
import { ChunkTemplates } from "./chunkTemplate.ts";
import {
  messageBytes,
  reasoningBytes,
  encryptedLengthOf,
  EncryptedReasoning,
} from "./generatedContent.ts";

/** A chat stream: every chunk is read, brought into the public form and written anew. */
export class ChatDecoder implements AnswerDecoder {
  isClosed = false;
  readonly reportsFailure = false;
  textBytes = 0;
  textDeltas = 0;
  providerCalls = 0;
  readonly #reasoning = new EncryptedReasoning();
  readonly #readEvent: ReadChatEvent;
  readonly #identity: AnswerIdentity;
  readonly #choiceCount: number;
  readonly #includeUsage: boolean;
  /** Undefined where the provider itself ends the answer. */
  readonly #stops: ChatStops | undefined;
  /** Undefined where an event means something else after others. */
  readonly #templates: ChunkTemplates | undefined;
  readonly #splitter: SseSplitter = createSseSplitter({ eventBytesMax: ANSWER_BYTES_MAX });
  /** Those of which content has come. */
  readonly #begunChoices = new Set<number>();
  readonly #finishedChoices = new Set<number>();
  readonly #callingChoices = new Set<number>();
  /** Those that a stop sequence ended, as long as the provider goes on with them. */
  readonly #stoppedChoices = new Set<number>();
  readonly #heldBack = new TrailingChunks();
  readonly #reported = new ReportedUsage();
  readonly #passthrough = new PassthroughFields();
  /** The usage in the provider's own form. */
  #usageObject: unknown;
  #output = "";

  constructor(options: {
    readEvent: ReadChatEvent;
    identity: AnswerIdentity;
    choiceCount: number;
    includeUsage: boolean;
    /** The stop sequences that are left to the gateway. */
    stop?: readonly string[];
    /** Each event is read alike, whatever came before it. */
    eventsStandAlone?: boolean;
  }) {
    this.#readEvent = options.readEvent;
    this.#identity = options.identity;
    this.#choiceCount = options.choiceCount;
    this.#includeUsage = options.includeUsage;
    const { stop = [], eventsStandAlone = false } = options;
    this.#stops = stop.length > 0 ? new ChatStops(stop) : undefined;
    this.#templates = eventsStandAlone && stop.length === 0 ? new ChunkTemplates() : undefined;
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
    return this.#reported.problem;
  }

  get isUsageFinal(): boolean {
    return this.#reported.isFinal(this.isFinished, this.textBytes);
  }

  /** A provider may make fewer choices than it was asked for; one that began and has no end is cut. */
  get isFinished(): boolean {
    if (this.#finishedChoices.size >= this.#choiceCount) return true;
    if (!this.isClosed || this.#finishedChoices.size === 0) return false;
    return this.#begunChoices.isSubsetOf(this.#finishedChoices);
  }

  get isCutShort(): boolean {
    return this.#stoppedChoices.size > 0;
  }

  push(bytes: Uint8Array): void {
    for (const event of this.#splitter.push(bytes)) {
      const shown = this.#matchTemplate(spanOf(event.raw));
      if (shown === undefined) this.#read(event);
      else this.#output += shown;
    }
  }

  pass(span: Span): string | undefined {
    return this.#splitter.isBetweenEvents ? this.#matchTemplate(span) : undefined;
  }

  #matchTemplate(event: Span): string | undefined {
    const filled =
      this.isClosed || !this.#passthrough.isEmpty ? undefined : this.#templates?.match(event);
    if (filled) this.#countText(filled.textBytes);
    return filled?.clientEvent;
  }

  #countText(bytes: number): void {
    this.textBytes += bytes;
    if (bytes > 0) this.textDeltas += 1;
  }

  end(): void {
    // An event that the end cut off is no event, as the standard says; a finished answer lacks nothing.
    this.#close();
  }

  take(): string | undefined {
    const output = this.#output;
    this.#output = "";
    return output === "" ? undefined : output;
  }

  takeObjects(): readonly StoredObject[] {
    return [];
  }

  ending(billed: Usage): string {
    const chunks = this.#heldBack.completed((last) => {
      const whole = this.#passthrough.addTo(last);
      if (!this.#includeUsage) return [whole];
      return withUsage(whole, billed, this.#usageObject, this.#identity);
    });
    return `${chunks.map(eventOf).join("")}data: ${DONE}\n\n`;
  }

  failure(): string {
    return this.#releaseHeldText() + chatFailure(this.#identity);
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
    if (read.kind !== "done") this.#reasoning.addEncrypted(read.encryptedLength ?? 0);
    if (read.kind === "nothing" && read.ranTool) this.providerCalls += 1;
    if (read.kind !== "chunk") return;
    if (read.usage && this.#includeUsage) {
      // Written once now, so that writing it at the end, after the charge, cannot fail.
      answerText(read.chunk["usage"]);
      this.#usageObject = read.chunk["usage"];
    }
    const chunk = publicChunk(read.chunk, this.#identity, this.#callingChoices);
    // A chunk without choices bears the usage of the whole answer, and that is the gateway's to give.
    for (const { delta } of chunk.choices) {
      this.#reasoning.addText(reasoningBytes(delta));
      if (read.encryptedLength === undefined)
        this.#reasoning.addEncrypted(encryptedLengthOf(delta));
    }
    if (chunk.choices.length > 0) this.#relay(chunk);
    else if (this.#isPassedThrough(read.chunk)) this.#passthrough.add(chunk);
    if (this.#templates && !read.usage) this.#learn(sseEvent, chunk, this.#templates);
    if (read.isLast) this.#close();
    if (!read.usage) return;
    const isAlone = chunk.choices.length === 0;
    // With a finish reason, behind one, or by itself: other figures are early ones.
    const hasEnded = isAlone || this.#finishedChoices.size > 0;
    const mayBeWhole = hasEnded && !read.isUsageEarly;
    const text = { bytes: this.textBytes, deltas: this.textDeltas };
    this.#reported.add(read.usage, text, isAlone, mayBeWhole);
  }

  /** What has no list of choices is no chunk: a provider keeps the connection awake with it, or speaks to itself. */
  #isPassedThrough({ choices }: JsonFields): boolean {
    return this.#identity.unknownFields === "forward" && Array.isArray(choices);
  }

  /** An event of a text and nothing else is what most of a stream is made of. */
  #learn({ raw }: SseEvent, { choices }: ChatChunk, frames: ChunkTemplates): void {
    const [choice] = choices;
    if (choices.length !== 1 || !choice || choice.finish_reason !== null) return;
    // A byte order mark is one only where it opens the stream.
    if (raw[0] === BYTE_ORDER_MARK[0]) return;
    const { content, ...others } = choice.delta;
    if (!content || Object.keys(others).length > 0) return;
    frames.learn(raw, content, (bytes) => {
      const [one] = createSseSplitter({ eventBytesMax: ANSWER_BYTES_MAX }).push(bytes);
      const read = this.#readEvent({ event: one?.event, data: one?.data ?? "" });
      if (read.kind !== "chunk") return undefined;
      const chunk = publicChunk(read.chunk, this.#identity, this.#callingChoices);
      return { text: chunk.choices[0]?.delta.content ?? "", clientEvent: this.#eventFor(chunk) };
    });
  }

  #relay(chunk: ChatChunk): void {
    const choices = this.#stops?.apply(chunk.choices) ?? chunk.choices;
    const finishing = choices.filter(({ finish_reason }) => finish_reason !== null);
    const others = choices.filter(({ finish_reason }) => finish_reason === null);
    const bearing = choices.length > 0 ? this.#passthrough.addTo(chunk) : chunk;
    // What cannot be written throws here, before any of it counts as answered.
    const text = this.#eventFor({ ...bearing, choices: others });
    if (finishing.length > 0) {
      const last = { ...(others.length > 0 ? chunk : bearing), choices: finishing };
      this.#heldBack.add(visibleChunk(last, this.#identity));
    }
    this.#output += text;
    // All that the provider said was generated, and is counted, whether the client sees it or not.
    for (const choice of chunk.choices) {
      this.#countText(messageBytes(choice.delta));
      const { index } = choice;
      if (!this.#begunChoices.has(index) && bearsContent(choice)) {
        this.#begunChoices.add(index);
      }
    }
    if (!this.hasContent && this.#output.length > BUFFERED_CHARACTERS_MAX) {
      throw new AnswerError("the answer does not begin");
    }
    for (const { index, delta, finish_reason } of choices) {
      if (callsTool(delta)) this.#callingChoices.add(index);
      if (finish_reason === null) continue;
      this.#finishedChoices.add(index);
      if (this.#stops) this.#stoppedChoices.add(index);
    }
    for (const { index, finish_reason } of chunk.choices) {
      if (finish_reason !== null) this.#stoppedChoices.delete(index);
    }
  }

  /** The provider says that its answer is whole: a choice of which it never said so is ended here. One that never began is none. */
  #finishBegunChoices(): void {
    const unended = [...this.#begunChoices].filter((index) => !this.#finishedChoices.has(index));
    if (unended.length === 0) return;
    const choices = unended.map((index) => {
      const reason = finishReasonOf(undefined, this.#callingChoices.has(index));
      return { index, delta: {}, finish_reason: reason };
    });
    this.#heldBack.add(visibleChunk(this.#chunkOf(choices), this.#identity));
    for (const index of unended) this.#finishedChoices.add(index);
  }

  #close(): void {
    this.isClosed = true;
    this.#output += this.#releaseHeldText();
  }

  /** The texts that were kept back for stop sequences which did not come. */
  #releaseHeldText(): string {
    const choices = this.#stops?.release() ?? [];
    return this.#eventFor(this.#chunkOf(choices));
  }

  #chunkOf(choices: readonly ChunkChoice[]): ChatChunk {
    const { id, model, created } = this.#identity;
    return { id, object: "chat.completion.chunk", created, model, choices };
  }

  /** The event of a chunk; nothing where the client sees none of it. */
  #eventFor(chunk: ChatChunk): string {
    const shown = chunk.choices.length > 0 ? visibleChunk(chunk, this.#identity) : undefined;
    return shown ? eventOf(shown) : "";
  }
}

/** The end of a failed stream. */
export function chatFailure(
  identity: AnswerIdentity,
  error: StreamFailure = upstreamFailure,
): string {
  return `${eventOf(failureChunk(identity, error))}data: ${DONE}\n\n`;
}

function eventOf(chunk: ChatChunk): string {
  return `data: ${answerText(chunk)}\n\n`;
}

/**
 * What a provider reports of the usage of one chat stream. Some servers count in every chunk, or write zeros until the
 * end: a figure may be the whole answer's where the decoder says so, and is as long as no text follows.
 */
class ReportedUsage {
  /** The largest figures so far. */
  usage: Usage | undefined;
  /** The text that had come when the completion tokens of `usage` last grew. */
  text: GeneratedText | undefined;
  problem: UsageProblem | undefined;
  /** The bytes of text that had come when a usage came that may be the whole answer's. */
  #countedBytes: number | undefined;
  /**
   * The last report came in a chunk without choices and counts some completion: such a server means it, and does
   * not fill a field with zeros.
   */
  #isCountedAlone = false;

  /** A report that came behind `text`; `isAlone`: in a chunk without choices. */
  add(reported: Usage, text: GeneratedText, isAlone: boolean, mayBeWhole: boolean): void {
    this.#isCountedAlone = isAlone && reported.completionTokens > 0;
    if (isImplausible(reported)) {
      this.problem = "implausible";
      return;
    }
    if (this.usage && hasDecreased(this.usage, reported)) this.problem ??= "decreased";
    if (reported.completionTokens > (this.usage?.completionTokens ?? 0)) this.text = text;
    this.usage = this.usage ? largerUsage(this.usage, reported) : reported;
    if (mayBeWhole) this.#countedBytes = text.bytes;
  }

  /** Whether `usage` is that of the whole answer, of which so much text was said. */
  isFinal(isFinished: boolean, textBytes: number): boolean {
    if (!isFinished && !this.#isCountedAlone) return false;
    return this.#countedBytes === textBytes;
  }
}

/** What may be put by of a chat stream: of what comes before its content, and once more of its ends. */
const BUFFERED_CHARACTERS_MAX = 2 * ANSWER_BYTES_MAX;

/** The chunks of a chat stream that bear a finish reason: they leave only after the charge. */
class TrailingChunks {
  readonly #chunks: ChatChunk[] = [];
  #characters = 0;

  /** Takes what a client sees of one. Throws AnswerError for what cannot be written, and for ends without end. */
  add(shown: ChatChunk | undefined): void {
    if (!shown) return;
    // Written once now, so that writing it at the end, after the charge, cannot fail.
    this.#characters += answerText(shown).length;
    if (this.#characters > BUFFERED_CHARACTERS_MAX) {
      throw new AnswerError("the answer has too many ends");
    }
    this.#chunks.push(shown);
  }

  /** All of them, the last one as `complete` makes it. */
  completed(complete: (last: ChatChunk) => readonly ChatChunk[]): readonly ChatChunk[] {
    const last = this.#chunks.at(-1);
    return this.#chunks.flatMap((chunk) => (chunk === last ? complete(chunk) : chunk));
  }
}

/** Far more than any provider has. */
const PASSTHROUGH_FIELDS_MAX = 64;
const PASSTHROUGH_BYTES_MAX = 1024 * 1024;

/** What every chunk says for itself, and what only makes it longer, so that its length tells nothing. */
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
 * What the chunks without choices say of an answer, such as `prompt_filter_results` of Azure's: a client never sees
 * these chunks, and finds it on the next that has choices. Beyond 64 fields, or a megabyte, it is dropped.
 */
class PassthroughFields {
  #fields = new Map<string, unknown>();
  #bytes = 0;

  /** Nothing is on its way. */
  get isEmpty(): boolean {
    return this.#fields.size === 0;
  }

  /** Takes the fields of a chunk that has no choices. Throws AnswerError for what cannot be written. */
  add(chunk: ChatChunk): void {
    for (const [name, value] of Object.entries(chunk)) {
      if (NOT_PASSED_THROUGH.has(name) || value === null) continue;
      this.#bytes += Buffer.byteLength(answerText({ [name]: value }));
      const isFull = this.#fields.size === PASSTHROUGH_FIELDS_MAX && !this.#fields.has(name);
      if (isFull || this.#bytes > PASSTHROUGH_BYTES_MAX) continue;
      this.#fields.set(name, value);
    }
  }

  /** The chunk with what was taken so far, which is not given out again. What the chunk itself says counts. */
  addTo(chunk: ChatChunk): ChatChunk {
    if (this.isEmpty) return chunk;
    const bearing = { ...Object.fromEntries(this.#fields), ...chunk };
    this.#fields = new Map();
    this.#bytes = 0;
    return bearing;
  }
}
