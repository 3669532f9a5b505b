import type { FinishReason } from "../../contract/chat/chatAnswer.ts";
import { readMessagesUsage, type Usage } from "../../contract/usage.ts";
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

/**
 * Why a message ended: https://platform.claude.com/docs/en/build-with-claude/handling-stop-reasons.
 * A paused turn is cut short by the provider, so it must not look like a whole one.
 */
const FINISH_REASONS: ReadonlyMap<unknown, FinishReason> = new Map<unknown, FinishReason>([
  ["end_turn", "stop"],
  ["stop_sequence", "stop"],
  ["max_tokens", "length"],
  ["model_context_window_exceeded", "length"],
  ["pause_turn", "length"],
  ["tool_use", "tool_calls"],
  ["refusal", "content_filter"],
]);

/** Reads a whole message. Throws AnswerError. */
export function readMessage(text: string): ChatReply {
  const message = parseAnswer(text, parseExactly);
  const { content } = message;
  if (!Array.isArray(content)) throw new AnswerError("the message has no content");
  const blocks = content.filter(isJsonObject);
  const toolCalls = blocks.filter(({ type }) => type === "tool_use").map(toolCall);
  const thinking = thoughtsOf(blocks);
  const reasoning = joined(blocks, "thinking");
  return {
    completion: {
      choices: [
        {
          index: 0,
          finish_reason: finishReasonOf(message["stop_reason"]),
          message: {
            role: "assistant",
            content: joined(blocks, "text"),
            ...refusalOf(message),
            ...(reasoning === "" ? {} : { reasoning_content: reasoning }),
            ...(thinking.length === 0 ? {} : { thinking_blocks: thinking }),
            ...(toolCalls.length === 0 ? {} : { tool_calls: toolCalls }),
          },
        },
      ],
      usage: shownUsage(message["usage"]),
    },
    usage: readMessagesUsage(message["usage"]),
  };
}

/** The convention's word for a stop reason; an unknown one stays, for the gateway to judge. */
function finishReasonOf(stopReason: unknown): unknown {
  return FINISH_REASONS.get(stopReason) ?? stopReason;
}

/** The words in which the provider explains that a message was refused, where it does: they are no text of the model's. */
function refusalOf({ stop_reason, stop_details: details }: JsonFields): JsonFields {
  const explanation = fieldsOf(details)["explanation"];
  return stop_reason === "refusal" && isText(explanation) ? { refusal: explanation } : {};
}

/** What a client sees of a message's usage besides the figures that are billed. */
function shownUsage(usage: unknown): JsonFields | undefined {
  const tokens = fieldsOf(fieldsOf(usage)["output_tokens_details"])["thinking_tokens"];
  if (!Number.isSafeInteger(tokens)) return undefined;
  return { completion_tokens_details: { reasoning_tokens: tokens } };
}

/** How a call is announced. Throws AnswerError where it cannot be answered for want of a name or an id. */
function openedCall(block: JsonFields): { id: string; name: string } {
  const { id, name } = block;
  if (typeof id === "string" && typeof name === "string") return { id, name };
  throw new AnswerError("a call has no id or no name");
}

/**
 * True for a thinking block that the provider would take back: in a loop of tool calls it must be given its own
 * thinking again, signature and all. `thinking_blocks` is the name that other gateways gave to that.
 */
export function isThinking(block: JsonFields): boolean {
  const { type, thinking, signature, data } = block;
  if (type === "redacted_thinking") return isText(data);
  return type === "thinking" && typeof thinking === "string" && isText(signature);
}

/** The thoughts of an answer, each with its place in it. */
function thoughtsOf(blocks: readonly JsonFields[]): readonly JsonFields[] {
  const thoughts: JsonFields[] = [];
  let characters = 0;
  let calls = 0;
  for (const block of blocks) {
    if (isThinking(block)) thoughts.push(withPosition(block, { characters, calls }));
    if (block["type"] === "tool_use") calls += 1;
    characters += joined([block], "text").length;
  }
  return thoughts;
}

function toolCall(block: JsonFields): JsonFields {
  const { id, name } = openedCall(block);
  return { id, type: "function", function: { name, arguments: answerText(block["input"] ?? {}) } };
}

function joined(blocks: readonly JsonFields[], type: "text" | "thinking"): string {
  return blocks
    .filter((block) => block["type"] === type)
    .map((block) => (typeof block[type] === "string" ? block[type] : ""))
    .join("");
}

function isText(value: unknown): boolean {
  return typeof value === "string" && value !== "";
}

/**
 * A content block that has begun, and after what: of what opened it only what its end needs, for the provider may open
 * many. Of a call, and undefined for all else: its place among the calls; and whether any arguments came.
 */
interface OpenBlock {
  readonly isThinking: boolean;
  /** The whole of a thought that nobody can read. */
  readonly hidden: JsonFields | undefined;
  readonly call: number | undefined;
  /** What a call was opened with, as JSON. */
  readonly input: string;
  readonly after: AnswerPosition;
  thinking: string;
  signature: string;
  hasArguments: boolean;
}

const NOTHING: ChatEvent = { kind: "nothing" };
/** What a tool that the provider runs has found, such as `web_search_tool_result` and `mcp_tool_result`. */
const SERVER_RESULT = /_tool_result$/;
/** So many blocks may be open at once; the interface has one at a time. */
const OPEN_BLOCKS_MAX = 1000;
/** Thoughts that are longer together are shown, but not kept for the end, where they would be given back whole. */
const THOUGHT_CHARACTERS_MAX = 1024 * 1024;
/** So much may the calls of an answer be opened with, all together: as much as an answer in JSON may have. */
const INPUT_CHARACTERS_MAX = 32 * 1024 * 1024;

/** Starts reading the events of one message: https://platform.claude.com/docs/en/build-with-claude/streaming */
export function readMessageEvents(): ReadChatEvent {
  const reader = new MessageReader();
  return (event) => reader.read(event);
}

class MessageReader {
  readonly #open = new Map<number | undefined, OpenBlock>();
  /**
   * The thoughts as they were signed: all at the end, in one list. Clients that put the chunks of a stream together
   * know lists of calls only, and keep of several lists the last one, or fail at it.
   */
  readonly #thoughts: JsonFields[] = [];
  /** Of those and of the thoughts that are open. */
  #thoughtCharacters = 0;
  #inputCharacters = 0;
  #calls = 0;
  /** Of the text so far. */
  #characters = 0;
  #isFinished = false;
  /** The figures of `message_start`. That of the output is only a placeholder there. */
  #started: JsonFields = {};

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
        // Pings, and what the provider will add: its documentation asks to pass over unknown events.
        return NOTHING;
    }
  }

  #start(message: unknown): ChatEvent {
    this.#started = fieldsOf(fieldsOf(message)["usage"]);
    const usage = readMessagesUsage({ ...this.#started, output_tokens: 0 });
    return { ...chunkOf({ role: "assistant" }), usage, isUsageEarly: true };
  }

  #startBlock(at: unknown, start: JsonFields): ChatEvent {
    if (this.#open.size >= OPEN_BLOCKS_MAX) throw new AnswerError("too many blocks are open");
    const index = indexOf(at);
    const { type } = start;
    const isCall = type === "tool_use";
    const isHidden = type === "redacted_thinking";
    const isThought = isHidden || type === "thinking";
    const isKept = isThought && this.#mayKeep(answerText(start).length);
    this.#open.set(index, {
      isThinking: type === "thinking",
      hidden: isHidden && isKept ? start : undefined,
      call: isCall ? this.#calls : undefined,
      input: isCall ? this.#inputOf(start) : "",
      after: { characters: this.#characters, calls: this.#calls },
      thinking: "",
      signature: "",
      hasArguments: false,
    });
    if (isCall) {
      const { id, name } = openedCall(start);
      const opened = { id, type: "function", function: { name, arguments: "" } };
      return chunkOf({ tool_calls: [{ index: this.#calls++, ...opened }] });
    }
    // The first text is empty as a rule, and comes with the deltas.
    if (type === "text") return this.#add(index, { type: "text_delta", text: start["text"] });
    if (isHidden) return { kind: "nothing", sealed: textOf(start["data"]).length };
    if (SERVER_RESULT.test(textOf(type))) return { kind: "nothing", ranTool: true };
    if (type !== "thinking") return NOTHING;
    const signed = this.#add(index, { type: "signature_delta", signature: start["signature"] });
    const shown = this.#add(index, { type: "thinking_delta", thinking: start["thinking"] });
    return shown.kind === "nothing" ? signed : { ...signed, ...shown };
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
        if (block?.isThinking && this.#mayKeep(thinking.length)) block.thinking += thinking;
        return textChunk("reasoning_content", thinking);
      }
      case "signature_delta": {
        const signature = textOf(delta["signature"]);
        if (block?.isThinking && this.#mayKeep(signature.length)) block.signature += signature;
        return { kind: "nothing", sealed: signature.length };
      }
      case "input_json_delta": {
        if (!block) throw new AnswerError("a call goes on that never began");
        const text = textOf(delta["partial_json"]);
        // The provider's own tools have their input in the same form; a client is not to run them.
        if (block.call === undefined || text === "") return NOTHING;
        block.hasArguments = true;
        return chunkOf({ tool_calls: [calledWith(block.call, text)] });
      }
      default:
        return NOTHING;
    }
  }

  #stopBlock(index: unknown): ChatEvent {
    const call = this.#closeBlock(indexOf(index));
    return call ? chunkOf({ tool_calls: [call] }) : NOTHING;
  }

  /** What a block shows only at its end: the input of a call that came whole or not at all. */
  #closeBlock(index: number | undefined): JsonFields | undefined {
    const block = this.#open.get(index);
    this.#open.delete(index);
    if (!block) return undefined;
    if (block.call === undefined) {
      this.#keepThought(block);
      return undefined;
    }
    if (block.hasArguments) return undefined;
    return calledWith(block.call, block.input);
  }

  #inputOf(start: JsonFields): string {
    const input = answerText(start["input"] ?? {});
    this.#inputCharacters += input.length;
    if (this.#inputCharacters > INPUT_CHARACTERS_MAX) throw new AnswerError("calls are too long");
    return input;
  }

  /** Whether so much more of the thoughts is kept. Of what is once too much nothing is given back. */
  #mayKeep(characters: number): boolean {
    this.#thoughtCharacters += characters;
    return this.#thoughtCharacters <= THOUGHT_CHARACTERS_MAX;
  }

  #keepThought({ isThinking: isShown, thinking, signature, hidden, after }: OpenBlock): void {
    const whole = isShown ? { type: "thinking", thinking, signature } : hidden;
    if (whole && isThinking(whole)) this.#thoughts.push(withPosition(whole, after));
  }

  #finish(delta: JsonFields, reported: unknown): ChatEvent {
    const { stop_reason: stopReason } = delta;
    const usage = this.#finalUsage(fieldsOf(reported));
    const shown = shownUsage(reported);
    if (stopReason === undefined || stopReason === null || this.#isFinished) {
      // The same event may come amid the answer, with the figures so far.
      const isUsageEarly = !this.#isFinished;
      return { kind: "chunk", chunk: { choices: [], usage: shown }, usage, isUsageEarly };
    }
    this.#isFinished = true;
    // The thoughts in it were counted when they came.
    const last = { ...this.#closeAll(), ...refusalOf(delta) };
    return { ...chunkOf(last, finishReasonOf(stopReason), shown), usage, sealed: 0 };
  }

  /** Blocks that were never stopped are whole all the same, once the message is. */
  #closeAll(): JsonFields {
    const calls: JsonFields[] = [];
    for (const index of this.#open.keys()) {
      const call = this.#closeBlock(index);
      if (call) calls.push(call);
    }
    // Some of the thoughts without the others are none that the provider takes back.
    const hasThoughts = this.#thoughts.length > 0 && this.#mayKeep(0);
    return {
      ...(calls.length > 0 && { tool_calls: calls }),
      ...(hasThoughts && { thinking_blocks: this.#thoughts }),
    };
  }

  /** The figures of `message_delta` are cumulative; those that it leaves out are the first ones. */
  #finalUsage(reported: JsonFields): Usage | undefined {
    const final: Record<string, unknown> = { ...this.#started, output_tokens: undefined };
    for (const [name, figure] of Object.entries(reported)) final[name] = later(final[name], figure);
    return readMessagesUsage(final);
  }
}

/** What only grows is the larger of two; of anything else the later one counts. */
function later(before: unknown, now: unknown): unknown {
  if (typeof before === "number" && typeof now === "number") return Math.max(before, now);
  return now ?? before;
}

/** A call by its place, as it goes on with a piece of its arguments. */
function calledWith(index: number, text: string): JsonFields {
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

/** Where a block stands. There is one at a time as a rule, so one without a number is found all the same. */
function indexOf(value: unknown): number | undefined {
  return typeof value === "number" ? value : undefined;
}

function textOf(value: unknown): string {
  return typeof value === "string" ? value : "";
}
