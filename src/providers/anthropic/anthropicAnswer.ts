import { servicesOf } from "../../contract/serviceTier.ts";
import { laterUsage, readMessagesUsage } from "../../contract/usage.ts";
import { parseExactly } from "../../lib/exactJson.ts";
import { fieldsOf, isJsonObject, type JsonFields } from "../../lib/json.ts";
import { parseAnswer, reportedFailureOf } from "../reportedFailure.ts";
import { withPosition, type AnswerPosition } from "./anthropicBlocks.ts";
import {
  AnswerError,
  answerText,
  type ChatReply,
  type ChatEvent,
  type ReadChatEvent,
} from "../provider.ts";

/** Reads a whole message. Throws AnswerError. */
export function readMessage(text: string): ChatReply {
  const message = parseAnswer(text, parseExactly);
  const { content } = message;
  if (!Array.isArray(content)) throw new AnswerError("the message has no content");
  const blocks = content.filter(isJsonObject);
  const toolCalls = blocks.filter(({ type }) => type === "tool_use").map(toolCall);
  const reasoningBlocks = reasoningBlocksOf(blocks);
  const reasoning = joined(blocks, "thinking");
  return {
    completion: {
      choices: [
        {
          index: 0,
          finish_reason: message["stop_reason"],
          message: {
            role: "assistant",
            content: joined(blocks, "text"),
            ...refusalOf(message),
            ...(reasoning === "" ? {} : { reasoning_content: reasoning }),
            ...(reasoningBlocks.length === 0 ? {} : { thinking_blocks: reasoningBlocks }),
            ...(toolCalls.length === 0 ? {} : { tool_calls: toolCalls }),
          },
        },
      ],
      usage: publicUsage(message["usage"]),
    },
    usage: readMessagesUsage(message["usage"]),
    services: servicesOf(message["usage"]),
  };
}

/** The provider's explanation of a refusal. It is not text of the model. */
function refusalOf({ stop_reason, stop_details: details }: JsonFields): JsonFields {
  const explanation = fieldsOf(details)["explanation"];
  return stop_reason === "refusal" && isNonEmptyText(explanation) ? { refusal: explanation } : {};
}

/** The usage details that the client gets besides the billed figures. */
function publicUsage(usage: unknown): JsonFields | undefined {
  const tokens = fieldsOf(fieldsOf(usage)["output_tokens_details"])["thinking_tokens"];
  if (!Number.isSafeInteger(tokens)) return undefined;
  return { completion_tokens_details: { reasoning_tokens: tokens } };
}

/** Throws AnswerError if a call has no name or no id, because then it cannot be answered. */
function callHeader(block: JsonFields): { id: string; name: string } {
  const { id, name } = block;
  if (typeof id === "string" && typeof name === "string") return { id, name };
  throw new AnswerError("a call has no id or no name");
}

/**
 * True for a reasoning block with what the provider needs to take it back: in a loop of tool calls it requires its
 * own reasoning with the signature. Other gateways named this field `thinking_blocks`.
 */
export function isReturnableReasoning(block: JsonFields): boolean {
  const { type, thinking, signature, data } = block;
  if (type === "redacted_thinking") return isNonEmptyText(data);
  return type === "thinking" && typeof thinking === "string" && isNonEmptyText(signature);
}

/** The reasoning blocks of an answer with their positions. */
function reasoningBlocksOf(blocks: readonly JsonFields[]): readonly JsonFields[] {
  const reasoning: JsonFields[] = [];
  let characters = 0;
  let calls = 0;
  for (const block of blocks) {
    if (isReturnableReasoning(block)) reasoning.push(withPosition(block, { characters, calls }));
    if (block["type"] === "tool_use") calls += 1;
    characters += joined([block], "text").length;
  }
  return reasoning;
}

function toolCall(block: JsonFields): JsonFields {
  const { id, name } = callHeader(block);
  return { id, type: "function", function: { name, arguments: answerText(block["input"] ?? {}) } };
}

function joined(blocks: readonly JsonFields[], type: "text" | "thinking"): string {
  return blocks
    .filter((block) => block["type"] === type)
    .map((block) => (typeof block[type] === "string" ? block[type] : ""))
    .join("");
}

function isNonEmptyText(value: unknown): boolean {
  return typeof value === "string" && value !== "";
}

/** A content block that has begun. It keeps only what its end needs, because a provider may open many. */
interface OpenBlock {
  readonly isVisible: boolean;
  /** The complete block of encrypted reasoning. */
  readonly redacted: JsonFields | undefined;
  /** The index of a call among the calls; undefined for other blocks. */
  readonly call: number | undefined;
  /** The input that came with the start of a call, as JSON. */
  readonly input: string;
  readonly after: AnswerPosition;
  thinking: string;
  signature: string;
  hasArguments: boolean;
}

const NOTHING: ChatEvent = { kind: "nothing" };
/** Results of tools that the provider runs, such as `web_search_tool_result` and `mcp_tool_result`. */
const SERVER_RESULT = /_tool_result$/;
/** The interface opens one block at a time. */
const OPEN_BLOCKS_MAX = 1000;
/** Longer reasoning is streamed, but not returned as a whole at the end. */
const REASONING_CHARACTERS_MAX = 1024 * 1024;
/** A bound on the start inputs of all calls together: the size limit of a JSON answer. */
const INPUT_CHARACTERS_MAX = 32 * 1024 * 1024;

/** Reads the events of one message: https://platform.claude.com/docs/en/build-with-claude/streaming */
export function readMessageEvents(): ReadChatEvent {
  const reader = new MessageReader();
  return (event) => reader.read(event);
}

class MessageReader {
  readonly #open = new Map<number | undefined, OpenBlock>();
  /**
   * Sent in one list at the end. Clients that join chunks merge only lists of calls: of other lists they keep the
   * last one, or fail.
   */
  readonly #reasoningBlocks: JsonFields[] = [];
  /** The characters of all reasoning blocks, finished and open. */
  #reasoningCharacters = 0;
  #inputCharacters = 0;
  #calls = 0;
  /** The characters of the text so far. */
  #characters = 0;
  #isFinished = false;
  /** The usage of `message_start`. Its output count is a placeholder. */
  #startUsage: JsonFields = {};

  read({ event, data }: Parameters<ReadChatEvent>[0]): ChatEvent {
    if (data === "") return NOTHING;
    const fields = parseAnswer(data);
    const type: unknown = fields["type"] ?? event;
    switch (type) {
      case "message_start":
        return this.#start(fields["message"]);
      case "content_block_start":
        return this.#startBlock(fields["index"], fieldsOf(fields["content_block"]));
      case "content_block_delta":
        return this.#add(fields["index"], fieldsOf(fields["delta"]));
      case "content_block_stop":
        return this.#stopBlock(fields["index"]);
      case "message_delta":
        return this.#finish(fieldsOf(fields["delta"]), fields["usage"]);
      case "message_stop":
        return { kind: "done" };
      case "error":
        throw reportedFailureOf(fields);
      default:
        // Pings and unknown events, which the documentation asks to ignore.
        return NOTHING;
    }
  }

  #start(message: unknown): ChatEvent {
    this.#startUsage = fieldsOf(fieldsOf(message)["usage"]);
    const usage = readMessagesUsage({ ...this.#startUsage, output_tokens: 0 });
    const services = servicesOf(this.#startUsage);
    return { ...chunkOf({ role: "assistant" }), usage, isUsageEarly: true, services };
  }

  #startBlock(at: unknown, start: JsonFields): ChatEvent {
    if (this.#open.size >= OPEN_BLOCKS_MAX) throw new AnswerError("too many blocks are open");
    const index = indexOf(at);
    const { type } = start;
    const isCall = type === "tool_use";
    const isRedacted = type === "redacted_thinking";
    const isReasoning = isRedacted || type === "thinking";
    const isKept = isReasoning && this.#canKeep(answerText(start).length);
    this.#open.set(index, {
      isVisible: type === "thinking",
      redacted: isRedacted && isKept ? start : undefined,
      call: isCall ? this.#calls : undefined,
      input: isCall ? this.#inputOf(start) : "",
      after: { characters: this.#characters, calls: this.#calls },
      thinking: "",
      signature: "",
      hasArguments: false,
    });
    if (isCall) {
      const { id, name } = callHeader(start);
      const opened = { id, type: "function", function: { name, arguments: "" } };
      return chunkOf({ tool_calls: [{ index: this.#calls++, ...opened }] });
    }
    // Usually empty: the text comes with the deltas.
    if (type === "text") return this.#add(index, { type: "text_delta", text: start["text"] });
    if (isRedacted) return { kind: "nothing", encryptedLength: textOf(start["data"]).length };
    if (SERVER_RESULT.test(textOf(type))) return { kind: "nothing", ranTool: true };
    if (type !== "thinking") return NOTHING;
    const signed = this.#add(index, { type: "signature_delta", signature: start["signature"] });
    const visible = this.#add(index, { type: "thinking_delta", thinking: start["thinking"] });
    return visible.kind === "nothing" ? signed : { ...signed, ...visible };
  }

  #add(index: unknown, delta: JsonFields): ChatEvent {
    const block = this.#open.get(indexOf(index));
    switch (delta["type"]) {
      case "text_delta": {
        const text = textOf(delta["text"]);
        this.#characters += text.length;
        return textChunk("content", text);
      }
      case "thinking_delta": {
        const thinking = textOf(delta["thinking"]);
        if (block?.isVisible && this.#canKeep(thinking.length)) block.thinking += thinking;
        return textChunk("reasoning_content", thinking);
      }
      case "signature_delta": {
        const signature = textOf(delta["signature"]);
        if (block?.isVisible && this.#canKeep(signature.length)) block.signature += signature;
        return { kind: "nothing", encryptedLength: signature.length };
      }
      case "input_json_delta": {
        if (!block) throw new AnswerError("arguments came for a call that did not begin");
        const text = textOf(delta["partial_json"]);
        // Input of the provider's own tools, which a client must not run.
        if (block.call === undefined || text === "") return NOTHING;
        block.hasArguments = true;
        return chunkOf({ tool_calls: [callArguments(block.call, text)] });
      }
      default:
        return NOTHING;
    }
  }

  #stopBlock(index: unknown): ChatEvent {
    const call = this.#closeBlock(indexOf(index));
    return call ? chunkOf({ tool_calls: [call] }) : NOTHING;
  }

  /** Ends a block. Returns the arguments of a call whose input came complete or not at all. */
  #closeBlock(index: number | undefined): JsonFields | undefined {
    const block = this.#open.get(index);
    this.#open.delete(index);
    if (!block) return undefined;
    if (block.call === undefined) {
      this.#keepReasoning(block);
      return undefined;
    }
    if (block.hasArguments) return undefined;
    return callArguments(block.call, block.input);
  }

  #inputOf(start: JsonFields): string {
    const input = answerText(start["input"] ?? {});
    this.#inputCharacters += input.length;
    if (this.#inputCharacters > INPUT_CHARACTERS_MAX) throw new AnswerError("calls are too long");
    return input;
  }

  /** Counts more reasoning. False if all of it together is too long to return. */
  #canKeep(characters: number): boolean {
    this.#reasoningCharacters += characters;
    return this.#reasoningCharacters <= REASONING_CHARACTERS_MAX;
  }

  #keepReasoning({ isVisible, thinking, signature, redacted, after }: OpenBlock): void {
    const whole = isVisible ? { type: "thinking", thinking, signature } : redacted;
    if (whole && isReturnableReasoning(whole))
      this.#reasoningBlocks.push(withPosition(whole, after));
  }

  /** The figures of `message_delta` are cumulative. For missing ones those of `message_start` count. */
  #finish(delta: JsonFields, reported: unknown): ChatEvent {
    const { stop_reason: stopReason } = delta;
    const all = laterUsage({ ...this.#startUsage, output_tokens: undefined }, fieldsOf(reported));
    const usage = readMessagesUsage(all);
    const services = servicesOf(all);
    const details = publicUsage(reported);
    if (stopReason === undefined || stopReason === null || this.#isFinished) {
      // A `message_delta` may also come within the answer, with the usage so far.
      const isUsageEarly = !this.#isFinished;
      const chunk = { choices: [], usage: details };
      return { kind: "chunk", chunk, usage, isUsageEarly, services };
    }
    this.#isFinished = true;
    // Encrypted reasoning was counted when it came.
    const last = { ...this.#closeBlocks(), ...refusalOf(delta) };
    const chunk = chunkOf(last, stopReason, details);
    return { ...chunk, usage, encryptedLength: 0, services };
  }

  /** Blocks without a stop event are complete once the message is. */
  #closeBlocks(): JsonFields {
    const calls: JsonFields[] = [];
    for (const index of this.#open.keys()) {
      const call = this.#closeBlock(index);
      if (call) calls.push(call);
    }
    // The provider refuses reasoning of which a part is missing.
    const hasReasoning = this.#reasoningBlocks.length > 0 && this.#canKeep(0);
    return {
      ...(calls.length > 0 && { tool_calls: calls }),
      ...(hasReasoning && { thinking_blocks: this.#reasoningBlocks }),
    };
  }
}

function callArguments(index: number, text: string): JsonFields {
  return { index, function: { arguments: text } };
}

function textChunk(field: "content" | "reasoning_content", text: string): ChatEvent {
  return text === "" ? NOTHING : chunkOf({ [field]: text });
}

function chunkOf(
  delta: JsonFields,
  finishReason: unknown = null,
  usage?: JsonFields,
): ChatEvent & { kind: "chunk" } {
  const choices = [{ index: 0, delta, finish_reason: finishReason }];
  return { kind: "chunk", chunk: { choices, usage }, usage: undefined };
}

/** The index of a block. Undefined is an index too: a server that sends none opens one block at a time. */
function indexOf(value: unknown): number | undefined {
  return typeof value === "number" ? value : undefined;
}

function textOf(value: unknown): string {
  return typeof value === "string" ? value : "";
}
