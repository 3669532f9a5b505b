import type { JsonFields } from "../../lib/json.ts";
import type { ChatRequestBody } from "../../contract/chat/chatRequestBody.ts";

type Effort = NonNullable<ChatRequestBody["reasoning_effort"]>;

/** How a model is told how much to think: by a level, by a budget of tokens, or, thinking not at all, in no way. */
type Thinking = "levels" | "budget" | "none";

/** https://ai.google.dev/gemini-api/docs/openai#thinking. Beyond `high` the interface has nothing. */
const LEVELS = { low: "LOW", medium: "MEDIUM", high: "HIGH", xhigh: "HIGH" } as const;
const BUDGETS = { low: 1024, medium: 8192, high: 24_576, xhigh: 24_576 } as const;

/**
 * The effort as the model of this name takes it: https://ai.google.dev/gemini-api/docs/thinking. Either
 * form, sent to a model that does not know it, is a 400: a model of which nothing is known is sent none.
 * Who asks for an effort sees the thoughts too: they cost nothing besides, and end the silence before the answer.
 */
export function thinkingConfigOf(
  model: string,
  effort: Effort | undefined,
): JsonFields | undefined {
  if (effort === undefined) return undefined;
  switch (thinkingOf(model)) {
    case "levels": {
      // The first of its generation knows two levels only.
      const isFirst = /\bgemini-3-pro\b/.test(model);
      const thinkingLevel = isFirst && effort === "medium" ? "HIGH" : LEVELS[effort];
      return { thinkingLevel, includeThoughts: true };
    }
    case "budget":
      return { thinkingBudget: BUDGETS[effort], includeThoughts: true };
    case "none":
      return undefined;
  }
}

/** From its third generation on, Gemini answers with 400 where a call comes back without its signature. */
export function demandsSignatures(model: string): boolean {
  return thinkingOf(model) === "levels";
}

/**
 * From its third generation on, Gemini looks at pictures and documents in the result of a call:
 * https://ai.google.dev/gemini-api/docs/function-calling#multimodal.
 */
export function takesMediaInResults(model: string): boolean {
  return thinkingOf(model) === "levels";
}

/** Names such as `gemini-flash-latest` always lead to the newest generation. Of the second, those that draw do not think. */
function thinkingOf(model: string): Thinking {
  const name = model.replace(/^models\//, "");
  if (/^gemini-[a-z-]+-latest$/.test(name)) return "levels";
  const [, major, minor = "0"] = /^gemini-(\d{1,3})(?:\.(\d{1,3}))?(?:-|$)/.exec(name) ?? [];
  if (major === undefined) return "none";
  if (Number(major) >= 3) return "levels";
  const draws = /-image(?:-|$)/.test(name);
  return Number(major) === 2 && Number(minor) >= 5 && !draws ? "budget" : "none";
}
