import { isStrictSchema } from "../../../contract/chat/strictSchema.ts";
import { translatedMessagesProblem } from "../../../contract/messages/translatedMessages.ts";
import { fieldsOf, isDeeperThan, isJsonObject, type JsonFields } from "../../../lib/json.ts";
import { registeredMediaType } from "../../../lib/mediaType.ts";
import { inputTag } from "../../../contract/messages/messagesRequest.ts";
import { DEPTH_MAX, unsupported, UnsupportedRequestError } from "../../../providers/provider.ts";
import { BESIDE_RESULTS } from "../../../providers/dialect/adaptChat.ts";
import { isTranslatedThinking } from "./translatedThinking.ts";

/** A chat has no more stop sequences. The gateway applies the others. */
const STOP_SEQUENCES_MAX = 4;

type Message = Record<string, unknown>;
type Part = JsonFields;

/**
 * The body of a chat for a checked body of POST /v1/messages. Throws UnsupportedRequestError for a member that is not
 * well-formed, and for what changes the answer and has no counterpart in a chat. Left out are settings that only tune an answer or a provider's cache (`top_k`,
 * `cache_control`, `context_management`, `metadata`) and fields that the gateway does not know. docs/reference/http/messages.md has the
 * whole list.
 */
export function chatBodyOfMessages(body: JsonFields): JsonFields {
  if (isDeeperThan(body, DEPTH_MAX))
    throw new UnsupportedRequestError("the request is nested too deep");
  const problem = translatedMessagesProblem(body);
  if (problem !== undefined) throw new UnsupportedRequestError(problem);
  if (Array.isArray(body["mcp_servers"]) && body["mcp_servers"].length > 0) {
    throw unsupported("mcp_servers");
  }
  if (body["max_tokens"] === 0) {
    throw new UnsupportedRequestError("max_tokens of 0 is not supported by this model's provider");
  }
  const tools = toolsOf(body["tools"]);
  const { format, effort } = outputOf(body);
  return withoutUndefined({
    model: body["model"],
    max_tokens: body["max_tokens"],
    stream: body["stream"] ?? undefined,
    messages: [
      ...systemMessages(withoutAttribution(body["system"]), "system"),
      ...messagesOf(body["messages"]),
    ],
    temperature: body["temperature"] ?? undefined,
    top_p: body["top_p"] ?? undefined,
    stop: stopOf(body["stop_sequences"]),
    tools: tools.length === 0 ? undefined : tools,
    ...toolChoiceOf(body["tool_choice"], tools.length > 0),
    reasoning_effort: effort,
    response_format: format,
  });
}

function messagesOf(messages: unknown): readonly Message[] {
  const list: readonly unknown[] = Array.isArray(messages) ? messages : [];
  return list.flatMap((value, index) => {
    const { role, content } = fieldsOf(value);
    const path = `messages[${index}].content`;
    if (role === "system") return systemMessages(content, path);
    return role === "assistant" ? [assistantMessage(content, path)] : userMessages(content, path);
  });
}

/**
 * A line of Claude Code about itself, at the start of the instructions. It differs between sessions, so with it no other
 * provider could read the prompt from its cache. Anthropic takes it out itself.
 */
const ATTRIBUTION = /^x-anthropic-billing-header:[^\n]*\n*/i;

function withoutAttribution(system: unknown): unknown {
  if (typeof system === "string") return system.replace(ATTRIBUTION, "");
  if (!Array.isArray(system)) return system;
  const [first, ...others] = system as readonly unknown[];
  const { text } = fieldsOf(first);
  if (typeof text !== "string" || !ATTRIBUTION.test(text)) return system;
  return [{ ...fieldsOf(first), text: text.replace(ATTRIBUTION, "") }, ...others];
}

/** Instructions. Blocks become one text, because some servers accept only that. */
function systemMessages(content: unknown, path: string): readonly Message[] {
  const texts = blocksOf(content).map((block, index) => {
    if (block["type"] === "text") return textOf(block["text"]);
    throw unsupportedType(`${path}[${index}]`, block["type"]);
  });
  const text = texts.filter((one) => one !== "").join("\n\n");
  return text === "" ? [] : [{ role: "system", content: text }];
}

/** Results of tools come first: a chat wants them right after the calls. */
function userMessages(content: unknown, path: string): readonly Message[] {
  const results: Message[] = [];
  const parts: Part[] = [];
  for (const [index, block] of blocksOf(content).entries()) {
    const at = `${path}[${index}]`;
    if (block["type"] !== "tool_result") {
      parts.push(...partsOf(block, at));
      continue;
    }
    results.push({
      role: "tool",
      tool_call_id: block["tool_use_id"],
      content: resultOf(block, at),
    });
  }
  if (parts.length === 0 && results.length > 0) return results;
  const said = { role: "user", content: contentOf(parts) };
  return results.length === 0 ? [said] : [...results, { ...said, [BESIDE_RESULTS]: true }];
}

/** A chat has no mark for a result that is an error. The text says it. */
const ERROR_RESULT = "Error: ";

/** One text, and after it what is no text, which the dialect of a route may move. */
function resultOf(block: JsonFields, path: string): string | readonly Part[] {
  const parts = blocksOf(block["content"]).flatMap((inner, index) =>
    partsOf(inner, `${path}.content[${index}]`),
  );
  const texts = parts.filter(({ type }) => type === "text").map(({ text }) => textOf(text));
  const others = parts.filter(({ type }) => type !== "text");
  const text = (block["is_error"] === true ? ERROR_RESULT : "") + texts.join("\n");
  if (others.length === 0) return text;
  return text === "" ? others : [{ type: "text", text }, ...others];
}

function assistantMessage(content: unknown, path: string): Message {
  const texts: string[] = [];
  const reasoning: string[] = [];
  const calls: JsonFields[] = [];
  for (const [index, block] of blocksOf(content).entries()) {
    switch (block["type"]) {
      case "text":
        texts.push(textOf(block["text"]));
        break;
      case "thinking":
        // Reasoning of another provider's model is of no use to this one.
        if (isTranslatedThinking(block)) reasoning.push(textOf(block["thinking"]));
        break;
      case "redacted_thinking":
        break;
      case "tool_use":
        calls.push({
          id: block["id"],
          type: "function",
          function: { name: block["name"], arguments: JSON.stringify(block["input"] ?? {}) },
        });
        break;
      default:
        throw unsupportedType(`${path}[${index}]`, block["type"]);
    }
  }
  return withoutUndefined({
    role: "assistant",
    content: texts.join(""),
    reasoning_content: reasoning.length === 0 ? undefined : reasoning.join("\n"),
    tool_calls: calls.length === 0 ? undefined : calls,
  });
}

/** The parts of a user's block: https://platform.claude.com/docs/en/api/messages */
function partsOf(block: JsonFields, path: string): readonly Part[] {
  const { type } = block;
  switch (type) {
    case "text":
      return [{ type: "text", text: textOf(block["text"]) }];
    case "image":
      return [{ type: "image_url", image_url: { url: urlOf(fieldsOf(block["source"]), path) } }];
    case "document":
      return documentParts(block, path);
    case "search_result": {
      const texts = blocksOf(block["content"]).map(({ text }) => textOf(text));
      return [
        {
          type: "text",
          text: [textOf(block["title"]), textOf(block["source"]), ...texts].join("\n"),
        },
      ];
    }
    case "tool_reference":
      // All tools are defined from the start, so there is nothing to load.
      return [{ type: "text", text: `The tool ${textOf(block["tool_name"])} is available.` }];
    default:
      throw unsupportedType(path, type);
  }
}

function documentParts(block: JsonFields, path: string): readonly Part[] {
  const source = fieldsOf(block["source"]);
  const title = textOf(block["title"]);
  const context = textOf(block["context"]);
  const about = [title, context]
    .filter((text) => text !== "")
    .map((text) => ({ type: "text", text }));
  switch (source["type"]) {
    case "text":
      return [...about, { type: "text", text: textOf(source["data"]) }];
    case "content":
      return [
        ...about,
        ...blocksOf(source["content"]).flatMap((inner, index) =>
          partsOf(inner, `${path}.source.content[${index}]`),
        ),
      ];
    case "base64": {
      const filename = title === "" ? "document.pdf" : title;
      const file = { file_data: urlOf(source, path), filename };
      return [...(context === "" ? [] : [{ type: "text", text: context }]), { type: "file", file }];
    }
    default:
      throw unsupportedType(`${path}.source`, source["type"]);
  }
}

function urlOf(source: JsonFields, path: string): string {
  const { type, url, media_type: mediaType, data } = source;
  if (type === "url" && typeof url === "string") return url;
  if (type === "base64" && typeof mediaType === "string" && typeof data === "string") {
    return `data:${registeredMediaType(mediaType)};base64,${data}`;
  }
  throw unsupportedType(`${path}.source`, type);
}

/** Names the type as Anthropic does. */
function unsupportedType(path: string, type: unknown): UnsupportedRequestError {
  const isPlain = typeof type === "string" && /^[\w.-]{1,64}$/.test(type);
  return unsupported(isPlain ? `${path}: ${inputTag(type)}` : path);
}

/** One text where that is enough: some servers accept no list. */
function contentOf(parts: readonly Part[]): string | readonly Part[] {
  return parts.every(({ type }) => type === "text")
    ? parts.map(({ text }) => textOf(text)).join("\n\n")
    : parts;
}

/** A definition that the provider of kind anthropic knows by its type has no counterpart. */
function toolsOf(tools: unknown): readonly JsonFields[] {
  const list: readonly unknown[] = Array.isArray(tools) ? tools : [];
  return list.map((value, index) => {
    const tool = fieldsOf(value);
    const { type = "custom", name, description, input_schema: schema, strict } = tool;
    if (type !== "custom" && type !== null) throw unsupportedType(`tools[${index}]`, type);
    const definition = {
      name,
      description,
      parameters: schema,
      // OpenAI's strict mode refuses schemas that Anthropic's takes.
      strict: strict === true && isJsonObject(schema) && isStrictSchema(schema) ? true : undefined,
    };
    return { type: "function", function: withoutUndefined(definition) };
  });
}

/** https://platform.claude.com/docs/en/agents-and-tools/tool-use/implement-tool-use#forcing-tool-use */
function toolChoiceOf(choice: unknown, hasTools: boolean): JsonFields {
  if (!isJsonObject(choice)) return {};
  const { type, name, disable_parallel_tool_use: isSingle } = choice;
  if (!hasTools && (type === "any" || type === "tool"))
    throw new UnsupportedRequestError("tool_choice requires tools");
  // A chat refuses a choice without tools.
  if (!hasTools) return {};
  const parallel = isSingle === true ? { parallel_tool_calls: false } : {};
  switch (type) {
    case "auto":
      return { tool_choice: "auto", ...parallel };
    case "any":
      return { tool_choice: "required", ...parallel };
    case "none":
      return { tool_choice: "none" };
    case "tool":
      return { tool_choice: { type: "function", function: { name } }, ...parallel };
    default:
      throw unsupportedType("tool_choice", type);
  }
}

function stopOf(sequences: unknown): unknown {
  if (!Array.isArray(sequences) || sequences.length === 0) return undefined;
  return sequences.slice(0, STOP_SEQUENCES_MAX);
}

/** The stop sequences of a body that `chatBodyOfMessages` accepts for which its chat has no room. */
export function stopsBeyondChat({ stop_sequences: sequences }: JsonFields): readonly string[] {
  return Array.isArray(sequences) ? (sequences as string[]).slice(STOP_SEQUENCES_MAX) : [];
}

/** https://platform.claude.com/docs/en/build-with-claude/effort. A chat has them all. */
const EFFORTS: ReadonlySet<unknown> = new Set(["low", "medium", "high", "xhigh", "max"]);
/** The effort for a budget of reasoning tokens, up to each limit. */
const BUDGETS = [
  [4096, "low"],
  [16_383, "medium"],
  [Infinity, "high"],
] as const;

/** The effort and the format of the answer. Reasoning that is turned off has no effort. */
function outputOf(body: JsonFields): {
  effort: string | undefined;
  format: JsonFields | undefined;
} {
  const config = fieldsOf(body["output_config"]);
  const { type, budget_tokens: budget } = fieldsOf(body["thinking"]);
  const { effort: named } = config;
  let effort = EFFORTS.has(named) ? (named as string) : undefined;
  if (effort === undefined && type === "enabled" && typeof budget === "number") {
    effort = BUDGETS.find(([limit]) => budget <= limit)?.[1];
  }
  if (type === "disabled") effort = undefined;
  // The second name is that of an earlier beta.
  const format = fieldsOf(config["format"] ?? body["output_format"]);
  const { type: formatType, schema } = format;
  if (formatType === undefined) return { effort, format: undefined };
  if (formatType !== "json_schema" || !isJsonObject(schema)) {
    throw unsupported("output_config.format", formatType);
  }
  const strict = isStrictSchema(schema) ? { strict: true } : {};
  return {
    effort,
    format: { type: "json_schema", json_schema: { name: "answer", schema, ...strict } },
  };
}

function blocksOf(content: unknown): readonly JsonFields[] {
  if (typeof content === "string") return [{ type: "text", text: content }];
  return Array.isArray(content) ? content.filter(isJsonObject) : [];
}

function textOf(value: unknown): string {
  return typeof value === "string" ? value : "";
}

function withoutUndefined(fields: JsonFields): Message {
  return Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== undefined));
}
