import { fieldsOf, isJsonObject } from "../../lib/json.ts";
import { countTokens } from "./tokens.ts";

/** What the demo provider understands of a prompt: how long it is. */
export interface Prompt {
  readonly tokens: number;
  /** Those of `tokens` that are reported as read from a cache. */
  readonly cachedTokens: number;
  /** The words of all messages of the user. */
  readonly userWords: number;
}

const MESSAGE_TOKENS = 3;
const CACHE_MINIMUM_TOKENS = 1024;
const CACHE_STEP_TOKENS = 128;

/**
 * Measures messages: the tokens of their texts and three more for each message. Parts that are not text count
 * nothing. There is no cache, but there are prices for one: half of a prompt of 1,024 tokens or more is reported as
 * cached, in steps of 128, so that the same request always costs the same.
 */
export function measurePrompt(messages: readonly unknown[]): Prompt {
  let tokens = 0;
  let userWords = 0;
  for (const message of messages) {
    if (!isJsonObject(message)) continue;
    const text = textOf(message["content"]);
    tokens += MESSAGE_TOKENS + countTokens(text);
    if (message["role"] === "user") userWords += countWords(text);
  }
  const cachedTokens =
    tokens < CACHE_MINIMUM_TOKENS
      ? 0
      : Math.floor(tokens / 2 / CACHE_STEP_TOKENS) * CACHE_STEP_TOKENS;
  return { tokens, cachedTokens, userWords };
}

/** The text of a message: its content, or that of its content's parts, one a line. */
function textOf(content: unknown): string {
  if (typeof content === "string") return content;
  if (!Array.isArray(content)) return "";
  const texts = content.map((part: unknown) => fieldsOf(part)["text"]);
  return texts.filter((text) => typeof text === "string").join("\n");
}

function countWords(text: string): number {
  return text.match(/\S+/gu)?.length ?? 0;
}
