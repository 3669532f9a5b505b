import type { JsonFields } from "../../lib/json.ts";
import type { ChatRequestBody } from "../../contract/chatRequestBody.ts";
import { openCallLoop, type Turn } from "./anthropicMessages.ts";
import { versionOf } from "./anthropicModel.ts";
import type { ChatToolChoice } from "../chat/chatTools.ts";

/** What an effort becomes: https://platform.claude.com/docs/en/build-with-claude/extended-thinking and .../effort */
export interface Thinking {
  readonly thinking?: JsonFields;
  readonly effort?: string;
}

type Effort = NonNullable<ChatRequestBody["reasoning_effort"]>;

/** Tokens that a model of the older kind may think for, where its bound leaves room for them. */
const BUDGETS: Readonly<Record<Effort, number>> = {
  low: 2048,
  medium: 8192,
  high: 16_384,
  xhigh: 32_768,
};
/** The least budget that the interface takes. */
const BUDGET_MIN = 1024;
/** Thoughts count towards the bound, as in the convention: so much of it is left for the answer. */
const ANSWER_SHARE = 0.25;
/** With thinking the interface takes this temperature only, which is its default. */
const TEMPERATURE = 1;
const TOP_P_MIN = 0.95;

/** Models that think: from Claude 3.7 on with a budget, from 4.6 on by an effort. 4.6 has no `xhigh`, but `max`. */
const THINKING_SINCE = 3.07;
const ADAPTIVE_SINCE = 4.06;
const XHIGH_SINCE = 4.07;

/**
 * How much the model is to think. Newer models take the effort itself and refuse a budget, older ones the
 * other way round; a name that tells no version of Claude is asked with a budget, the form that others copied. Left out where
 * the interface would refuse it beside something that the caller asks for in so many words: a forced tool, a temperature
 * or top_p of its own, a bound too small, a loop of calls whose thoughts are not given back.
 */
export function thinkingOf(
  body: ChatRequestBody,
  asked: {
    maxTokens: number;
    model: string;
    choice: ChatToolChoice | undefined;
    turns: readonly Turn[];
  },
): Thinking {
  const effort = body.reasoning_effort ?? undefined;
  if (effort === undefined) return {};
  const version = versionOf(asked.model);
  if (version !== undefined && version < THINKING_SINCE) return {};
  const isAdaptive = version !== undefined && version >= ADAPTIVE_SINCE;
  const isBudgeted = version !== undefined && !isAdaptive;
  const allowed = allowsThinking(body, asked.choice) && !hasForgotten(asked.turns, isBudgeted);
  if (isAdaptive) {
    return {
      effort: effort === "xhigh" && version < XHIGH_SINCE ? "max" : effort,
      // Some of these models hide their thoughts unless they are asked for them.
      ...(allowed ? { thinking: { type: "adaptive", display: "summarized" } } : {}),
    };
  }
  const room = Math.floor(asked.maxTokens * (1 - ANSWER_SHARE));
  const budget = Math.min(BUDGETS[effort], room);
  if (!allowed || budget < BUDGET_MIN) return {};
  return { thinking: { type: "enabled", budget_tokens: budget } };
}

function allowsThinking(body: ChatRequestBody, choice: ChatToolChoice | undefined): boolean {
  const isForced = choice?.kind === "required" || choice?.kind === "tool";
  return (
    !isForced && (body.temperature ?? TEMPERATURE) === TEMPERATURE && (body.top_p ?? 1) >= TOP_P_MIN
  );
}

/**
 * While its calls are answered a model must be given the thoughts that led to them, or it must not think. A Claude that
 * thinks by a budget had them before all else; any other model may have spoken first.
 */
function hasForgotten(turns: readonly Turn[], mustComeFirst: boolean): boolean {
  const [first] = openCallLoop(turns);
  if (first === undefined) return false;
  const places = mustComeFirst ? first.content.slice(0, 1) : first.content;
  return !places.some(({ type }) => type === "thinking" || type === "redacted_thinking");
}
