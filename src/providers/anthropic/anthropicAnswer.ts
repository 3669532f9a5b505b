import type { FinishReason } from "../../contract/chatAnswer.ts";
import { readMessagesUsage } from "../../contract/usage.ts";
import { parseExactly } from "../../lib/exactJson.ts";
import { fieldsOf, isJsonObject, type JsonFields } from "../../lib/json.ts";
import { parseAnswer } from "../chat/answerObject.ts";
import { placed } from "./anthropicOrder.ts";
import { AnswerError, answerText, type ChatReply } from "../provider.ts";

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
export function finishReasonOf(stopReason: unknown): unknown {
  return FINISH_REASONS.get(stopReason) ?? stopReason;
}

/** The words in which the provider explains that a message was refused, where it does: they are no text of the model's. */
export function refusalOf({ stop_reason, stop_details: details }: JsonFields): JsonFields {
  const explanation = fieldsOf(details)["explanation"];
  return stop_reason === "refusal" && isText(explanation) ? { refusal: explanation } : {};
}

/** What a client sees of a message's usage besides the figures that are billed. */
export function shownUsage(usage: unknown): JsonFields | undefined {
  const tokens = fieldsOf(fieldsOf(usage)["output_tokens_details"])["thinking_tokens"];
  if (!Number.isSafeInteger(tokens)) return undefined;
  return { completion_tokens_details: { reasoning_tokens: tokens } };
}

/** How a call is announced. Throws AnswerError where it cannot be answered for want of a name or an id. */
export function openedCall(block: JsonFields): { id: string; name: string } {
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
    if (isThinking(block)) thoughts.push(placed(block, { characters, calls }));
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
