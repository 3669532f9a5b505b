import { createAnthropic } from "@ai-sdk/anthropic";
import { createOpenAI } from "@ai-sdk/openai";
import { createOpenAICompatible } from "@ai-sdk/openai-compatible";
import {
  APICallError,
  generateText,
  isStepCount,
  jsonSchema,
  Output,
  streamText,
  tool as offer,
  type LanguageModel,
  type LanguageModelUsage,
  type ToolSet,
} from "ai";
import type { Call, SdkError, SdkClient, SdkResult } from "./client.ts";
import { objectSchema, tool } from "./script.ts";

/** The AI SDK with its package for Anthropic's interface. */
export const vercelAnthropicClient = client("the AI SDK, anthropic", "messages", (call) =>
  createAnthropic(connectionOf(call))(call.model),
);

/** The AI SDK with each of its packages for OpenAI's interfaces. */
export const vercelAiClients: readonly SdkClient[] = [
  client("the AI SDK, chat of openai", "chat", (call) =>
    createOpenAI(connectionOf(call)).chat(call.model),
  ),
  client("the AI SDK, responses of openai", "responses", (call) =>
    createOpenAI(connectionOf(call)).responses(call.model),
  ),
  client("the AI SDK, openai-compatible", "chat", (call) =>
    createOpenAICompatible({
      name: "tollgate",
      ...connectionOf(call),
      includeUsage: true,
      supportsStructuredOutputs: true,
    })(call.model),
  ),
];

/** The settings of a package with which it reaches the gateway. */
export function connectionOf({ baseUrl, apiKey, fetch }: Call) {
  return { baseURL: baseUrl, apiKey, fetch };
}

function client(
  name: string,
  endpoint: SdkClient["endpoint"],
  modelOf: (call: Call) => LanguageModel,
): SdkClient {
  const settingsOf = (call: Call) => ({
    model: modelOf(call),
    prompt: "hello",
    maxRetries: 0,
    telemetry: { isEnabled: false },
    ...(call.signal === undefined ? {} : { abortSignal: call.signal }),
    providerOptions: call.asksForRefused ? refused : usual,
    // Anthropic's interface demands a bound. The package warns when it has to choose one.
    ...(endpoint === "messages" ? { maxOutputTokens: 100 } : {}),
  });
  const toolsOf = (run: (input: unknown) => string): ToolSet => ({
    [tool.name]: offer({
      description: tool.description,
      inputSchema: jsonSchema(tool.parameters),
      execute: run,
    }),
  });
  return {
    name,
    endpoint,
    refusedField: endpoint === "messages" ? "inference_geo" : "service_tier priority",
    boundedFinish: "length",
    async ask(call) {
      return toldBy(await generateText(settingsOf(call)));
    },
    stream: (call, heard) => follow(streamText({ ...settingsOf(call), ...quiet }), heard),
    async useTool(call, way, run) {
      const settings = { ...settingsOf(call), tools: toolsOf(run), stopWhen: isStepCount(2) };
      if (way === "as a stream") return follow(streamText({ ...settings, ...quiet }), () => {});
      return toldBy(await generateText(settings));
    },
    async askForObject(call) {
      const output = Output.object({ schema: jsonSchema(objectSchema) });
      return (await generateText({ ...settingsOf(call), output })).output;
    },
    errorOf,
  };
}

/** It has models of Anthropic answer by a schema; of others it would ask for a call of a tool. */
const usual = { anthropic: { structuredOutputMode: "outputFormat" } } as const;

/** Each package reads its own entry; what it does not know of its own it passes on. */
const refused = {
  anthropic: { inferenceGeo: "us" },
  openai: { serviceTier: "priority" },
  tollgate: { service_tier: "priority" },
};

/** Errors are parts of a stream too, and otherwise also printed. */
const quiet = { onError: () => {} };

/** Reads a stream as the SDK's documentation says: an error is a part of it. Throws that error. */
async function follow(
  result: ReturnType<typeof streamText>,
  heard: (text: string) => void,
): Promise<SdkResult> {
  for await (const part of result.stream) {
    if (part.type === "error") throw part.error;
    if (part.type === "text-delta") heard(part.text);
  }
  const [text, usage, finishReason] = await Promise.all([
    result.text,
    result.usage,
    result.finishReason,
  ]);
  return toldBy({ text, usage, finishReason });
}

function toldBy(answer: {
  text: string;
  usage: LanguageModelUsage;
  finishReason: string;
}): SdkResult {
  const { inputTokens = 0, outputTokens = 0, inputTokenDetails } = answer.usage;
  const cached = inputTokenDetails.cacheReadTokens ?? 0;
  const usage = { prompt: inputTokens, completion: outputTokens, cached };
  return { text: answer.text, usage, finish: answer.finishReason };
}

function errorOf(error: unknown): SdkError {
  const status = APICallError.isInstance(error) ? error.statusCode : undefined;
  return { status, message: error instanceof Error ? error.message : String(error) };
}
