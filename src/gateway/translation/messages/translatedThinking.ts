import { parseExactly } from "../../../lib/exactJson.ts";
import {
  fieldsOf,
  isDeeperThan,
  isJsonObject,
  textOf,
  type JsonFields,
  type JsonObjectText,
} from "../../../lib/json.ts";
import { scanObject } from "../../../lib/jsonObject.ts";
import { splice } from "../../../lib/splice.ts";
import { DEPTH_MAX } from "../../../providers/provider.ts";

/**
 * The signature of reasoning that a provider of another kind wrote. Anthropic signs its own reasoning, and clients return
 * it with the signature: https://platform.claude.com/docs/en/build-with-claude/extended-thinking
 */
export const TRANSLATED_SIGNATURE = "tollgate-translated";

/** Whether a block of reasoning came from an answer that was translated. A provider of kind anthropic refuses it. */
export function isTranslatedThinking(block: JsonFields): boolean {
  return block["type"] === "thinking" && block["signature"] === TRANSLATED_SIGNATURE;
}

/**
 * The client's text for a provider of kind anthropic. Reasoning of an answer that another kind of provider wrote has no
 * signature of Anthropic, and its models refuse it, so it is left out. Everything else keeps its bytes. So does a text that
 * is nested too deep to be written again: the provider refuses it.
 */
export function ownMessagesText(object: JsonObjectText): JsonObjectText {
  const { messages } = fieldsOf(parseExactly(textOf(object)));
  if (!Array.isArray(messages) || isDeeperThan(messages, DEPTH_MAX)) return object;
  const kept = messages.flatMap((message: unknown) => {
    const { content, ...others } = fieldsOf(message);
    if (!Array.isArray(content)) return [message];
    const own = content.filter((block) => !isJsonObject(block) || !isTranslatedThinking(block));
    // The interface refuses a message without content.
    return own.length === 0 ? [] : [{ ...others, content: own }];
  });
  return scanObject(splice(object, { set: { messages: JSON.stringify(kept) } }));
}
