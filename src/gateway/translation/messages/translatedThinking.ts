import type { JsonFields } from "../../../lib/json.ts";

/**
 * The signature of reasoning that a provider of another kind wrote. Anthropic signs its own reasoning, and clients return
 * it with the signature: https://platform.claude.com/docs/en/build-with-claude/extended-thinking
 */
export const TRANSLATED_SIGNATURE = "tollgate-translated";

/** Whether a block of reasoning came from an answer that was translated. A provider of kind anthropic refuses it. */
export function isTranslatedThinking(block: JsonFields): boolean {
  return block["type"] === "thinking" && block["signature"] === TRANSLATED_SIGNATURE;
}
