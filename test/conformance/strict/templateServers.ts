import { openaiDialect } from "../../providers/conformance/openaiDialect.ts";
import {
  object,
  objects,
  partsOf,
  Refused,
  type Json,
  type StrictServer,
  word,
} from "./strictServer.ts";

/** How a server reports what the template of a model raises. */
type Report = (words: string) => Refused;

/** As vllm-project/vllm#41114 and its like quote it. */
const vllm: Report = (message) =>
  new Refused(400, { error: { message, type: "BadRequestError", param: null, code: 400 } });

/** Of llama.cpp, tools/server/server-common.cpp: what a template raises is an error of the server or of the request. */
function llamaCpp(code: 400 | 500): Report {
  const type = code === 500 ? "server_error" : "invalid_request_error";
  return (words) => {
    const message = `\n------------\nWhile executing CallExpression at line 85, column 32 in source:\n...{{- raise_exception('${words}') }}...\nError: Jinja Exception: ${words}`;
    return new Refused(code, { error: { code, message, type } });
  };
}

/** As https://huggingface.co/Qwen/Qwen3.5-27B/blob/main/chat_template.jinja */
function checkQwen(messages: readonly Json[], report: Report): void {
  if (messages.length === 0) throw report("No messages provided.");
  for (const [at, { role, content }] of messages.entries()) {
    if (role === "system") {
      if (at > 0) throw report("System message must be at the beginning.");
      if (partsOf(content).some(({ type }) => type === "image_url"))
        throw report("System message cannot contain images.");
    } else if (role !== "user" && role !== "assistant" && role !== "tool") {
      throw report("Unexpected message role.");
    }
  }
  if (!messages.some(({ role }) => role === "user"))
    throw report("No user query found in messages.");
}

/**
 * As the templates of Gemma and of Mistral's models of 2025: users and assistants take turns, and only calls and their
 * results do not count: https://huggingface.co/mistralai/Ministral-3-8B-Instruct-2512/blob/main/chat_template.jinja
 */
function checkTurns(messages: readonly Json[], report: Report): void {
  const [first] = messages;
  const others = first?.["role"] === "system" ? messages.slice(1) : messages;
  let turns = 0;
  for (const { role, tool_calls: calls } of others) {
    const isCall = role === "assistant" && objects(calls).length > 0;
    if (role === "tool" || isCall) continue;
    if (role !== "user" && role !== "assistant") {
      throw report("Only user, assistant and tool roles are supported, got " + word(role) + ".");
    }
    if ((role === "user") !== (turns % 2 === 0)) {
      throw report(
        "After the optional system message, conversation roles must alternate user and assistant roles except for tool calls and results.",
      );
    }
    turns += 1;
  }
}

interface Served {
  readonly name: string;
  readonly report: Report;
  readonly check: (messages: readonly Json[], report: Report) => void;
  readonly overflow: Refused;
}

const overflowOfVllm = new Refused(400, {
  error: {
    message:
      "This model's maximum context length is 262144 tokens. However, you requested 32000 output tokens and your prompt contains 230462 input tokens, for a total of 262462 tokens.",
    type: "BadRequestError",
    param: "input_tokens",
    code: 400,
  },
});

const overflowOfLlamaCpp = new Refused(400, {
  error: {
    code: 400,
    message:
      "request (40960 tokens) exceeds the available context size (32768 tokens), try increasing it",
    type: "exceed_context_size_error",
    n_prompt_tokens: 40_960,
    n_ctx: 32_768,
  },
});

function server({ name, report, check, overflow }: Served): StrictServer {
  return {
    name,
    provider: { message_order: "strict" },
    route: { model: "qwen3.5-27b", responses: false },
    settings: {},
    dialect: () => openaiDialect,
    check({ body }) {
      checkShape(body, report);
      check(objects(body["messages"]), report);
    },
    overflow,
    callId: (number) => `chatcmpl-tool-${String(number).padStart(16, "0")}`,
  };
}

/** What both servers refuse before the template runs. */
function checkShape(body: Json, report: Report): void {
  const effort = body["reasoning_effort"];
  if (effort !== undefined && !["none", "low", "medium", "high"].includes(word(effort))) {
    throw report(
      `[{'type': 'literal_error', 'loc': ('body', 'reasoning_effort'), 'msg': "Input should be 'none', 'low', 'medium' or 'high'", 'input': '${word(effort)}'}]`,
    );
  }
  if (
    "tool_choice" in body &&
    body["tool_choice"] !== "none" &&
    objects(body["tools"]).length === 0
  ) {
    throw report("When using `tool_choice`, `tools` must be set.");
  }
  for (const message of objects(body["messages"])) {
    for (const call of objects(message["tool_calls"])) {
      const { arguments: given } = object(call["function"]);
      try {
        const value: unknown = JSON.parse(word(given));
        if (typeof value === "object" && value !== null) continue;
      } catch {
        // Told below.
      }
      throw report("Can only get item pairs from a mapping.");
    }
  }
}

export const templateServers: readonly StrictServer[] = [
  server({ name: "Qwen 3.5 on vLLM", report: vllm, check: checkQwen, overflow: overflowOfVllm }),
  server({
    name: "Qwen 3.5 on llama.cpp",
    report: llamaCpp(500),
    check: checkQwen,
    overflow: overflowOfLlamaCpp,
  }),
  server({
    name: "Ministral 3 on llama.cpp",
    report: llamaCpp(400),
    check: checkTurns,
    overflow: overflowOfLlamaCpp,
  }),
];
