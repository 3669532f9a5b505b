import { isJsonObject, type JsonFields } from "../../lib/json.ts";
import { AnswerError } from "../../providers/provider.ts";

/** What a message or a delta says in its content, in the fields that the convention has for it. */
export interface SaidContent {
  readonly content: string;
  /** The thoughts that stand among the parts, unless the provider gives reasoning in this very field. */
  readonly reasoning_content?: string;
}

/**
 * Some providers give a list of parts where the convention has one text, and Mistral's has the thoughts of a model
 * among them: https://docs.mistral.ai/capabilities/reasoning/. Throws AnswerError.
 */
export function saidContent(said: JsonFields): SaidContent {
  const { content, reasoning_content: reasoning } = said;
  if (typeof content === "string") return { content };
  if (content === null || content === undefined) return { content: "" };
  if (!Array.isArray(content)) throw new AnswerError("the content is not text");
  const thoughts = (reasoning ?? "") === "" ? content.map(thoughtOf).join("") : "";
  const text = textOf(content);
  return thoughts === "" ? { content: text } : { content: text, reasoning_content: thoughts };
}

function thoughtOf(part: unknown): string {
  if (!isJsonObject(part) || part["type"] !== "thinking") return "";
  const { thinking } = part;
  return typeof thinking === "string" ? thinking : textOf(thinking);
}

function textOf(parts: unknown): string {
  if (!Array.isArray(parts)) return "";
  return parts
    .map((part: unknown) =>
      isJsonObject(part) && typeof part["text"] === "string" ? part["text"] : "",
    )
    .join("");
}
