import { anthropicDialect } from "../../providers/conformance/anthropicDialect.ts";
import { anthropicFault } from "./anthropicFault.ts";
import { checkAnthropicMessages } from "./anthropicTurnRules.ts";
import { checkAnthropicSchema } from "./anthropicSchemaRules.ts";
import {
  object,
  objects,
  unknownKeys,
  type Json,
  type StrictRequest,
  type StrictServer,
  word,
} from "./strictServer.ts";

/** https://platform.claude.com/docs/en/api/messages/create */
const fields =
  "cache_control container inference_geo max_tokens messages metadata model output_config service_tier stop_sequences stream system temperature thinking tool_choice tools top_k top_p".split(
    " ",
  );
/** Fields that need a beta, by a part of its name. */
const betaFields: Readonly<Record<string, string>> = {
  context_management: "context-management",
  mcp_servers: "mcp-client",
  output_format: "structured-outputs",
  fallback_model: "fallback",
};
/** https://platform.claude.com/docs/en/about-claude/models/overview */
const OUTPUT_TOKENS_MAX = 128_000;
const CACHE_MARKS_MAX = 4;
const efforts = ["low", "medium", "high", "xhigh", "max"];

interface Claude {
  readonly name: string;
  /** Takes instructions between the turns, no budget of thinking and no sampling: from version 4.8 on. */
  readonly isNew: boolean;
}

export const anthropicServers: readonly StrictServer[] = [
  server({ name: "claude-opus-5", isNew: true }),
  server({ name: "claude-sonnet-4-6", isNew: false }),
];

function server(claude: Claude): StrictServer {
  return {
    name: `Anthropic, ${claude.name}`,
    provider: { kind: "anthropic" },
    route: { model: claude.name, responses: false },
    settings: { max_output_tokens: OUTPUT_TOKENS_MAX },
    dialect: () => anthropicDialect,
    check: (request) => check(request, claude),
    overflow: anthropicFault("prompt is too long: 210000 tokens > 200000 maximum"),
    callId: (number) => `toolu_01${String(number).padStart(22, "0")}`,
  };
}

function check({ body, headers }: StrictRequest, claude: Claude): void {
  const betas = headers.get("anthropic-beta") ?? "";
  if (!headers.has("anthropic-version"))
    throw anthropicFault("anthropic-version: header is required");
  for (const key of unknownKeys(body, fields)) {
    const beta = betaFields[key];
    if (beta === undefined || !betas.includes(beta)) {
      throw anthropicFault(`${key}: Extra inputs are not permitted`);
    }
  }
  checkBound(body["max_tokens"], claude);
  checkSampling(body, claude);
  for (const [at, sequence] of ((body["stop_sequences"] ?? []) as readonly string[]).entries()) {
    if (sequence.trim() === "") {
      throw anthropicFault(`stop_sequences.${at}: each stop sequence must contain non-whitespace`);
    }
  }
  checkThinking(body, claude);
  checkTools(body);
  const output = object(body["output_config"]);
  if ("effort" in output && !efforts.includes(word(output["effort"]))) {
    const names = efforts.map((one) => `'${one}'`).join(", ");
    throw anthropicFault(
      `output_config.effort: Input should be ${names.replace(/, ('\w+')$/, " or $1")}`,
    );
  }
  if ("format" in output) {
    checkAnthropicSchema(object(output["format"])["schema"], "output_config.format.schema");
  }
  checkAnthropicMessages(body, claude.isNew);
  checkCacheMarks(body);
}

function checkBound(bound: unknown, { name }: Claude): void {
  if (typeof bound !== "number") throw anthropicFault("max_tokens: Field required");
  if (bound < 1) throw anthropicFault("max_tokens: Input should be greater than or equal to 1");
  if (bound > OUTPUT_TOKENS_MAX) {
    throw anthropicFault(
      `max_tokens: ${bound} > ${OUTPUT_TOKENS_MAX}, which is the maximum allowed number of output tokens for ${name}`,
    );
  }
}

function checkSampling(body: Json, { isNew }: Claude): void {
  const { temperature, top_p: topP, top_k: topK } = body;
  if (typeof temperature === "number" && (temperature < 0 || temperature > 1)) {
    throw anthropicFault("temperature: range: 0..1");
  }
  if (temperature !== undefined && topP !== undefined) {
    throw anthropicFault(
      "`temperature` and `top_p` cannot both be specified for this model. Please use only one.",
    );
  }
  if (!isNew) return;
  if (temperature !== undefined && temperature !== 1) {
    throw anthropicFault("`temperature` is deprecated for this model.");
  }
  if (topP !== undefined) throw anthropicFault("`top_p` is deprecated for this model.");
  if (topK !== undefined) throw anthropicFault("`top_k` is deprecated for this model.");
}

/** https://platform.claude.com/docs/en/build-with-claude/extended-thinking */
function checkThinking(body: Json, { isNew }: Claude): void {
  const { type, budget_tokens: budget } = object(body["thinking"]);
  if (type === undefined || type === "disabled") return;
  if (type === "enabled") {
    if (isNew) {
      throw anthropicFault(
        '"thinking.type.enabled" is not supported for this model. Use "thinking.type.adaptive" and "output_config.effort" to control thinking behavior.',
      );
    }
    if (typeof budget !== "number" || budget < 1024) {
      throw anthropicFault(
        "thinking.enabled.budget_tokens: Input should be greater than or equal to 1024",
      );
    }
    if (budget >= Number(body["max_tokens"])) {
      throw anthropicFault(
        "`max_tokens` must be greater than `thinking.budget_tokens`. Please consult our documentation at https://docs.claude.com/en/docs/build-with-claude/extended-thinking#max-tokens-and-context-window-size",
      );
    }
  }
  const choice = object(body["tool_choice"])["type"];
  if (choice === "any" || choice === "tool") {
    throw anthropicFault("Thinking may not be enabled when tool_choice forces tool use.");
  }
  const { temperature = 1 } = body;
  if (temperature !== 1) {
    throw anthropicFault(
      "`temperature` may only be set to 1 when thinking is enabled or in adaptive mode.",
    );
  }
  if (typeof body["top_p"] === "number" && body["top_p"] < 0.95) {
    throw anthropicFault(
      "`top_p` must be greater than or equal to 0.95 or unset when thinking is enabled.",
    );
  }
}

const toolFields =
  "name description input_schema type cache_control strict defer_loading allowed_callers eager_input_streaming input_examples".split(
    " ",
  );

function checkTools(body: Json): void {
  const tools = objects(body["tools"]);
  const names = tools.map(({ name }) => word(name));
  if (new Set(names).size < names.length) throw anthropicFault("tools: Tool names must be unique.");
  for (const [at, tool] of tools.entries()) {
    const { type = "custom" } = tool;
    if (type !== "custom") {
      // The tags that it knows end with a date.
      if (!/_20\d{6}$|^tool_search/.test(word(type))) {
        throw anthropicFault(
          `tools.${at}: Input tag '${word(type)}' found using 'type' does not match any of the expected tags: 'bash_20250124', 'custom', 'text_editor_20250728', 'web_search_20250305'`,
        );
      }
      continue;
    }
    const path = `tools.${at}.custom`;
    const [unknown] = unknownKeys(tool, toolFields);
    if (unknown !== undefined)
      throw anthropicFault(`${path}.${unknown}: Extra inputs are not permitted`);
    if (!/^[a-zA-Z0-9_-]{1,128}$/.test(word(tool["name"]))) {
      throw anthropicFault(`${path}.name: String should match pattern '^[a-zA-Z0-9_-]{1,128}$'`);
    }
    const schema = object(tool["input_schema"]);
    if (tool["input_schema"] === undefined)
      throw anthropicFault(`${path}.input_schema: Field required`);
    if (schema["type"] === undefined)
      throw anthropicFault(`${path}.input_schema.type: Field required`);
    if (schema["type"] !== "object")
      throw anthropicFault(`${path}.input_schema.type: Input should be 'object'`);
    if (["oneOf", "anyOf", "allOf"].some((key) => key in schema)) {
      throw anthropicFault(
        `${path}.input_schema: input_schema does not support oneOf, allOf, or anyOf at the top level`,
      );
    }
    if (tool["strict"] === true) checkAnthropicSchema(schema, path);
  }
  const choice = object(body["tool_choice"]);
  if ("tool_choice" in body && tools.length === 0) {
    throw anthropicFault("tool_choice may only be specified while providing tools");
  }
  if (choice["type"] === "tool" && !names.includes(word(choice["name"]))) {
    throw anthropicFault(`Tool '${word(choice["name"])}' not found in provided tools`);
  }
}

/** https://platform.claude.com/docs/en/build-with-claude/prompt-caching */
function checkCacheMarks(body: Json): void {
  const marks = marksIn(body);
  if (marks > CACHE_MARKS_MAX) {
    throw anthropicFault(
      `A maximum of ${CACHE_MARKS_MAX} blocks with cache_control may be provided. Found ${marks}.`,
    );
  }
}

function marksIn(value: unknown): number {
  if (typeof value !== "object" || value === null) return 0;
  const own = "cache_control" in value && value.cache_control !== null ? 1 : 0;
  return Object.entries(value).reduce((sum, [key, one]) => {
    // A schema may have a property of this name.
    return key === "input_schema" || key === "input" ? sum : sum + marksIn(one);
  }, own);
}
