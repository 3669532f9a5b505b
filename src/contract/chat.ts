import type { JsonFields } from "../lib/json.ts";
import { bodyCheck } from "./bodyCheck.ts";
import { refuseChatInOtherCase } from "./chatKeyCase.ts";
import { measurePrompt, type PromptMeasure } from "./chatPrompt.ts";
import {
  ChatRequestBody,
  hasSoundContent,
  RequestMessage,
  StrictChatRequestBody,
} from "./chatRequestBody.ts";
import { invalidRequest } from "./errors.ts";
import { firstProblem } from "./humanError.ts";
import { refuseLongCaches } from "./longCaches.ts";
import { refuseTools } from "./refusedTools.ts";
import { refuseDifferentBounds, refuseFields, refuseOtherNames } from "./sharedFields.ts";

const checkOpen = bodyCheck(ChatRequestBody);
const checkStrict = bodyCheck(StrictChatRequestBody);

/** A checked request: what the gateway itself needs, and the parsed body for the adapters. */
export interface ChatRequest extends PromptMeasure {
  readonly model: string;
  readonly stream: boolean;
  /** The caller wants usage in its stream. */
  readonly includeUsage: boolean;
  readonly choiceCount: number;
  /** The bound of each choice's tokens, under whichever name it came; undefined where the caller gave none. */
  readonly outputTokensBound: number | undefined;
  /** The stop sequences, none of them empty. */
  readonly stop: readonly string[];
  readonly body: ChatRequestBody;
}

/** How the operator wants bodies read. `refusedFields` are names at the top level, `refusedTools` types of tools. */
export interface ChatRequestRules {
  readonly unknownFields: "forward" | "reject";
  readonly refusedFields: readonly string[];
  readonly refusedTools: readonly string[];
}

/** Checks a body that `parseJsonObject` accepted. Throws ApiError 400 with the first problem in words. */
export function checkChatRequest(value: JsonFields, rules: ChatRequestRules): ChatRequest {
  const body: ChatRequestBody =
    rules.unknownFields === "reject" ? checkStrict(value) : checkOpenly(value);
  refuseFields(value, rules.refusedFields);
  refuseOtherNames(value, "max_tokens");
  refuseTools(value, rules.refusedTools);
  refuseLongCaches(value);
  refuseDifferentBounds(body);
  return {
    model: body.model,
    stream: body.stream ?? false,
    includeUsage: body.stream_options?.include_usage ?? false,
    choiceCount: body.n ?? 1,
    outputTokensBound:
      body.max_tokens ?? body.max_completion_tokens ?? body.max_output_tokens ?? undefined,
    stop: typeof body.stop === "string" ? [body.stop] : (body.stop ?? []),
    ...measurePrompt(body),
    body,
  };
}

function checkOpenly(value: unknown): ChatRequestBody {
  const body = checkOpen(value);
  for (const [index, message] of body.messages.entries()) {
    // Its words cost many times what it costs to see that there are none.
    if (hasSoundContent(message)) continue;
    const problem = firstProblem(RequestMessage, message, `messages[${index}]`);
    if (problem !== undefined) throw invalidRequest(problem);
  }
  refuseChatInOtherCase(body);
  return body;
}
