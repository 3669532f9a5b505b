import { gemini } from "../../../src/providers/gemini/gemini.ts";
import type { EncodedRequest } from "../../../src/providers/provider.ts";
import {
  type Asked,
  type AskedTool,
  type Dialect,
  type ExpectedAnswer,
  type ExpectedUsage,
  type AnswerContent,
  noAnthropicCounts,
  askedTool,
  inPieces,
} from "./dialect.ts";
import { geminiTranscripts } from "./geminiTranscripts.ts";
import { sentText } from "../../support/provider/sentText.ts";

const finishReasons = {
  stop: "STOP",
  tool_calls: "STOP",
  length: "MAX_TOKENS",
  content_filter: "SAFETY",
} as const;

const statuses: Readonly<Record<number, string>> = {
  400: "INVALID_ARGUMENT",
  401: "UNAUTHENTICATED",
  404: "NOT_FOUND",
  429: "RESOURCE_EXHAUSTED",
  529: "UNAVAILABLE",
};

/** GenerateContentResponse, as https://ai.google.dev/api/generate-content shows it. */
export const geminiDialect: Dialect = {
  name: "gemini",
  chat: gemini.chat,
  json: (answer) => response(partsOf(answer).flat(), answer.finish, answer.usage),
  stream: (answer) =>
    [
      ...partsOf(answer).map((parts) => event(response(parts))),
      event(response([{ text: "" }], answer.finish, answer.usage)),
    ].join(""),
  asked,
  error: (code, message) => {
    const text = JSON.stringify({ error: { code, message, status: statuses[code] ?? "INTERNAL" } });
    return { json: text, event: event(text) };
  },
  failures: [
    { name: "no candidates", json: '{"usageMetadata":{"promptTokenCount":1}}' },
    failure("candidates that are no list", { candidates: {} }),
    failure("a candidate that is none", { candidates: ["x"] }),
    failure("a content that is none", { candidates: [{ content: "x" }] }),
    failure("parts that are no list", { candidates: [{ content: { parts: "x" } }] }),
    failure("a part that is none", { candidates: [{ content: { parts: ["x"] } }] }),
    failure("a call of no name", {
      candidates: [{ content: { parts: [{ functionCall: { args: {} } }] }, finishReason: "STOP" }],
    }),
    ...[
      "MALFORMED_FUNCTION_CALL",
      "MALFORMED_RESPONSE",
      "UNEXPECTED_TOOL_CALL",
      "TOO_MANY_TOOL_CALLS",
      "MISSING_THOUGHT_SIGNATURE",
    ].map((finishReason) =>
      failure(`a candidate that ended with ${finishReason}`, { candidates: [{ finishReason }] }),
    ),
    failure("arguments nested deep", "deep"),
  ],
  transcripts: geminiTranscripts,
  // The name of the suite's model says nothing of how much it thinks.
  leavesOut: ["effort", "parallelToolCalls", "user"],
  cannot: { ...noAnthropicCounts },
  boundAlways: false,
  reportsCacheWrites: false,
};

function event(data: string): string {
  return `data: ${data}\r\n\r\n`;
}

function failure(name: string, answer: object | "deep"): Dialect["failures"][number] {
  const deep = `${"[".repeat(50_000)}${"]".repeat(50_000)}`;
  const text =
    answer === "deep"
      ? `{"candidates":[{"content":{"parts":[{"functionCall":{"name":"f","args":{"a":${deep}}}}]}}]}`
      : JSON.stringify(answer);
  return { name, json: text, stream: event(text) };
}

function response(
  parts: readonly object[],
  finish?: ExpectedAnswer["finish"],
  usage?: ExpectedUsage,
): string {
  return JSON.stringify({
    candidates: [
      {
        content: { parts, role: "model" },
        ...(finish && { finishReason: finishReasons[finish] }),
        index: 0,
      },
    ],
    ...(usage && { usageMetadata: usageOf(usage) }),
    modelVersion: "gemini-2.5-flash",
    responseId: "mAitaLmkHPPlz7IPvtfUqQ4",
  });
}

/** Of each event the parts. */
function partsOf({
  reasoning = "",
  text = "",
  toolCalls = [],
}: ExpectedAnswer): readonly object[][] {
  return [
    ...inPieces(reasoning).map((piece) => [{ text: piece, thought: true }]),
    ...inPieces(text).map((piece) => [{ text: piece }]),
    ...toolCalls.map(({ id, name, arguments: args }) => [
      { functionCall: { id, name, args: JSON.parse(args) as unknown } },
    ]),
  ];
}

/** Zeros are left out, as protocol buffers do, but for those that the suite wants to see believed. */
function usageOf({ prompt, cached, completion, reasoning }: ExpectedUsage): object {
  return {
    promptTokenCount: prompt,
    ...(cached !== 0 && { cachedContentTokenCount: cached }),
    candidatesTokenCount: completion - reasoning,
    ...(reasoning !== 0 && { thoughtsTokenCount: reasoning }),
    totalTokenCount: prompt + completion,
  };
}

/** The members of a request that are read back here. */
interface Sent {
  readonly contents: readonly { role: string; parts: readonly SentPart[] }[];
  readonly systemInstruction?: { parts: readonly SentPart[] };
  readonly tools?: readonly { functionDeclarations: readonly SentTool[] }[];
  readonly toolConfig?: {
    functionCallingConfig: { mode: string; allowedFunctionNames?: readonly string[] };
  };
  readonly generationConfig?: {
    maxOutputTokens?: number;
    temperature?: number;
    topP?: number;
    stopSequences?: readonly string[];
    responseMimeType?: string;
    responseJsonSchema?: unknown;
  };
}

interface SentPart {
  readonly text?: string;
  readonly inlineData?: { mimeType: string; data: string };
  readonly fileData?: { fileUri: string };
  readonly functionCall?: { id: string; name: string; args: unknown };
  readonly functionResponse?: { id: string; name: string; response: { output?: string } };
}

interface SentTool {
  readonly name: string;
  readonly description?: string;
  readonly parametersJsonSchema?: unknown;
}

function asked(encoded: EncodedRequest): Asked {
  const { path } = encoded;
  const [, model, action] =
    /^\/models\/([^/:?]+):(generateContent|streamGenerateContent\?alt=sse)$/.exec(path) ?? [];
  if (model === undefined) throw new Error(`not a chat: ${path}`);
  const sent = JSON.parse(sentText(encoded)) as Sent;
  const settings = sent.generationConfig ?? {};
  return {
    model: decodeURIComponent(model),
    stream: action !== "generateContent",
    system: (sent.systemInstruction?.parts ?? []).map(({ text = "" }) => text),
    conversation: sent.contents.flatMap(({ role, parts }) =>
      parts.map((part) => utteranceOf(role === "model" ? "assistant" : "user", part)),
    ),
    ...(settings.maxOutputTokens !== undefined && { bound: settings.maxOutputTokens }),
    ...(settings.temperature !== undefined && { temperature: settings.temperature }),
    ...(settings.topP !== undefined && { topP: settings.topP }),
    ...(settings.stopSequences && { stop: settings.stopSequences }),
    ...(sent.tools && {
      tools: sent.tools.flatMap((tool) => tool.functionDeclarations.map(toolOf)),
    }),
    ...(sent.toolConfig && { toolChoice: toolChoiceOf(sent.toolConfig) }),
    ...(settings.responseMimeType === "application/json" && {
      format: settings.responseJsonSchema ? { schema: settings.responseJsonSchema } : "json",
    }),
  };
}

function utteranceOf(by: "user" | "assistant", part: SentPart): AnswerContent {
  const { text, inlineData, fileData, functionCall: call, functionResponse: result } = part;
  if (text !== undefined) return { by, text };
  if (by === "assistant" && call) {
    return { by, call: { id: call.id, name: call.name, arguments: call.args } };
  }
  if (by === "user" && result) {
    return { by: "tool", answers: result.id, text: result.response.output ?? "" };
  }
  if (by === "user" && inlineData) {
    return { by, image: { mediaType: inlineData.mimeType, base64: inlineData.data } };
  }
  if (by === "user" && fileData) return { by, image: { url: fileData.fileUri } };
  throw new Error(`no part of the interface's: ${JSON.stringify(part)}`);
}

function toolOf({ parametersJsonSchema: parameters, ...tool }: SentTool): AskedTool {
  return askedTool({ ...tool, parameters });
}

function toolChoiceOf(config: NonNullable<Sent["toolConfig"]>): NonNullable<Asked["toolChoice"]> {
  const { mode, allowedFunctionNames: [name] = [] } = config.functionCallingConfig;
  if (name !== undefined) return { name };
  if (mode === "AUTO") return "auto";
  if (mode === "NONE") return "none";
  if (mode === "ANY") return "required";
  throw new Error(`no mode of the interface's: ${mode}`);
}
