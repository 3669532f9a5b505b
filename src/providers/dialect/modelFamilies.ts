import { reasoningEfforts, type ReasoningEffort } from "../../contract/chat/chatRequestBody.ts";

/** What the models of one family take in a chat. A prefix such as `openai/`, `us.openai.` or `ft:` makes no difference. */
export interface ModelFamily {
  readonly names: RegExp;
  /** The efforts that the models take. Missing: none is known. */
  readonly efforts?: readonly ReasoningEffort[];
  /** Fields that the models refuse, and that only tune an answer. */
  readonly refusedFields?: readonly string[];
  /** The models refuse `stop`. */
  readonly refusesStop?: true;
  /** The chat refuses tools with an effort; `always` also without any effort but `none`. The responses interface takes both. */
  readonly refusesToolsWithEffort?: "given" | "always";
  /** The form of the ids of calls, if the models take only one. */
  readonly callIds?: RegExp;
}

/** Models of OpenAI that reason take one temperature. */
const REASONING = { refusedFields: ["temperature", "top_p"], refusesStop: true } as const;
const TO_HIGH = ["low", "medium", "high"] as const;
const TO_XHIGH = [...TO_HIGH, "xhigh"] as const;

/**
 * The first row that matches counts. OpenAI: https://platform.openai.com/docs/guides/reasoning and the page of each model,
 * xAI: https://docs.x.ai/developers/model-capabilities/text/reasoning, Google's compatible interface:
 * https://ai.google.dev/gemini-api/docs/openai, Mistral:
 * https://github.com/mistralai/mistral-common/blob/main/src/mistral_common/protocol/instruct/validator.py
 */
const FAMILIES: readonly ModelFamily[] = [
  {
    names: /(?:^|[./:])o\d/i,
    efforts: TO_HIGH,
    ...REASONING,
    refusedFields: [...REASONING.refusedFields, "parallel_tool_calls"],
  },
  { names: /(?:^|[./:])gpt-oss/i, efforts: TO_HIGH },
  // The chat models do not reason as much as a client asks.
  { names: /(?:^|[./:])gpt-\d+(?:\.\d+)?-chat/i },
  { names: /(?:^|[./:])gpt-5-pro/i, efforts: ["high"], ...REASONING },
  { names: /(?:^|[./:])gpt-5\.\d+-pro/i, efforts: ["medium", "high", "xhigh"], ...REASONING },
  { names: /(?:^|[./:])gpt-5(?:\.1)?-codex(?!-max)/i, efforts: TO_HIGH, ...REASONING },
  { names: /(?:^|[./:])gpt-5(?:\.\d+)?-codex/i, efforts: TO_XHIGH, ...REASONING },
  { names: /(?:^|[./:])gpt-5(?!\.)/i, efforts: ["minimal", ...TO_HIGH], ...REASONING },
  { names: /(?:^|[./:])gpt-5\.1(?!\d)/i, efforts: ["none", ...TO_HIGH], ...REASONING },
  { names: /(?:^|[./:])gpt-5\.[23](?!\d)/i, efforts: ["none", ...TO_XHIGH], ...REASONING },
  {
    names: /(?:^|[./:])gpt-5\.[45](?!\d)/i,
    efforts: ["none", ...TO_XHIGH],
    refusesToolsWithEffort: "given",
    ...REASONING,
  },
  {
    names: /(?:^|[./:])gpt-(?:5\.|[6-9]|\d\d)/i,
    efforts: ["none", ...TO_XHIGH, "max"],
    refusesToolsWithEffort: "always",
    ...REASONING,
  },
  // https://platform.claude.com/docs/en/about-claude/models/migration-guide
  {
    names: /claude-(?:opus-4[-.][7-9]|(?:opus|sonnet|haiku|fable|mythos)-[5-9])/i,
    refusedFields: ["temperature", "top_p"],
  },
  { names: /(?:^|[./:])grok-3-mini/i, efforts: ["low", "high"] },
  { names: /(?:^|[./:])grok-(?:4\.[3-9](?!\d)|[5-9])/i, efforts: ["none", ...TO_HIGH] },
  { names: /(?:^|[./:])gemini-(?:2\.5|[3-9]|[a-z-]+-latest)/i, efforts: TO_HIGH },
  {
    names: /(?:mi[sx]tral|ministral|codestral|devstral|magistral|pixtral|voxtral)/i,
    callIds: /^[a-zA-Z0-9]{9}$/,
  },
];

const UNKNOWN: ModelFamily = { names: /(?:)/ };

/** The family of a model by the provider's name for it. */
export function familyOf(model: string): ModelFamily {
  return FAMILIES.find(({ names }) => names.test(model)) ?? UNKNOWN;
}

/** The value nearest to `effort` among `known`: not more, if there is one. Only `none` itself turns reasoning off. */
export function nearestEffort(
  effort: ReasoningEffort,
  known: readonly ReasoningEffort[],
): ReasoningEffort | undefined {
  if (known.includes(effort)) return effort;
  const rank = reasoningEfforts.indexOf(effort);
  const below = known.findLast((one) => one !== "none" && reasoningEfforts.indexOf(one) < rank);
  return below ?? known.find((one) => reasoningEfforts.indexOf(one) > rank);
}
