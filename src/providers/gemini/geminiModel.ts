import type { JsonFields } from "../../lib/json.ts";
import type { ChatRequestBody } from "../../contract/chat/chatRequestBody.ts";

type Effort = NonNullable<ChatRequestBody["reasoning_effort"]>;

/** How a model takes its reasoning effort: as a level, as a budget of tokens, or not at all. */
type ReasoningControl = "levels" | "budget" | "none";

/** https://ai.google.dev/gemini-api/docs/openai#thinking. There is nothing above `high`. */
const LEVELS = { low: "LOW", medium: "MEDIUM", high: "HIGH", xhigh: "HIGH" } as const;
const BUDGETS = { low: 1024, medium: 8192, high: 24_576, xhigh: 24_576 } as const;

/**
 * The effort in the form that the model takes: https://ai.google.dev/gemini-api/docs/thinking. The wrong form is a
 * 400, so an unknown model gets none. The reasoning is always included: it costs nothing more and ends the silence
 * before the answer.
 */
export function thinkingConfigOf(
  model: string,
  effort: Effort | undefined,
): JsonFields | undefined {
  if (effort === undefined) return undefined;
  switch (reasoningControlOf(model)) {
    case "levels": {
      // Gemini 3 Pro has only low and high.
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

/** From Gemini 3 on a call without its thought signature is a 400. */
export function requiresSignatures(model: string): boolean {
  return reasoningControlOf(model) === "levels";
}

/**
 * From Gemini 3 on a call's result may have images and documents:
 * https://ai.google.dev/gemini-api/docs/function-calling#multimodal
 */
export function supportsMediaInResults(model: string): boolean {
  return reasoningControlOf(model) === "levels";
}

/** Names such as `gemini-flash-latest` are of the newest generation. The image models of Gemini 2.5 do not reason. */
function reasoningControlOf(model: string): ReasoningControl {
  const name = model.replace(/^models\//, "");
  if (/^gemini-[a-z-]+-latest$/.test(name)) return "levels";
  const [, major, minor = "0"] = /^gemini-(\d{1,3})(?:\.(\d{1,3}))?(?:-|$)/.exec(name) ?? [];
  if (major === undefined) return "none";
  if (Number(major) >= 3) return "levels";
  const isImageModel = /-image(?:-|$)/.test(name);
  return Number(major) === 2 && Number(minor) >= 5 && !isImageModel ? "budget" : "none";
}
