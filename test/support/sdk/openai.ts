import OpenAI, {
  APIError,
  AuthenticationError,
  BadRequestError,
  InternalServerError,
  NotFoundError,
  RateLimitError,
} from "openai";
import type { ResponseInputItem } from "openai/resources/responses/responses";
import {
  optionsOf,
  type Call,
  type SdkError,
  type SdkClient,
  type SdkResult,
  type Way,
} from "./client.ts";
import { objectSchema, tool } from "./script.ts";

type ChatBody = Omit<OpenAI.ChatCompletionCreateParamsNonStreaming, "stream">;
type ResponsesBody = Omit<OpenAI.Responses.ResponseCreateParamsNonStreaming, "stream">;
type Heard = (text: string) => void;

/** The official client, on each interface. Its own helpers follow its streams. */
export const openaiClients: readonly SdkClient[] = [
  {
    name: "the openai client, chat",
    endpoint: "chat",
    refusedField: "service_tier priority",
    boundedFinish: "length",
    ask: async (call) => toldByChat(await chat(call, "in JSON")),
    stream: async (call, heard) => toldByChat(await chat(call, "as a stream", {}, heard)),
    async useTool(call, way, run) {
      const tools = [{ type: "function" as const, function: tool }];
      const asking = (await chat(call, way, { tools })).choices[0]?.message;
      const called = asking?.tool_calls?.[0];
      if (asking === undefined || called?.type !== "function") throw new Error("no tool is called");
      const content = run(JSON.parse(called.function.arguments));
      const result = { role: "tool" as const, tool_call_id: called.id, content };
      return toldByChat(await chat(call, way, { tools, messages: [hello, asking, result] }));
    },
    async askForObject(call) {
      const format = { name: "weather", schema: objectSchema, strict: true };
      const asked = { type: "json_schema" as const, json_schema: format };
      return JSON.parse(toldByChat(await chat(call, "in JSON", { response_format: asked })).text);
    },
    errorOf,
  },
  {
    name: "the openai client, responses",
    endpoint: "responses",
    refusedField: "service_tier priority",
    boundedFinish: "incomplete",
    ask: async (call) => toldByResponse(await respond(call, "in JSON")),
    stream: async (call, heard) => toldByResponse(await respond(call, "as a stream", {}, heard)),
    async useTool(call, way, run) {
      const tools = [{ type: "function" as const, strict: true, ...tool }];
      const { id, output } = await respond(call, way, { tools });
      const called = output.find(({ type }) => type === "function_call");
      if (called?.type !== "function_call") throw new Error("no tool is called");
      const result: ResponseInputItem = {
        type: "function_call_output",
        call_id: called.call_id,
        output: run(JSON.parse(called.arguments)),
      };
      const further = { tools, previous_response_id: id, input: [result] };
      return toldByResponse(await respond(call, way, further));
    },
    async askForObject(call) {
      const format = { type: "json_schema" as const, name: "weather", schema: objectSchema };
      return JSON.parse((await respond(call, "in JSON", { text: { format } })).output_text);
    },
    errorOf,
  },
];

const hello = { role: "user", content: "hello" } as const;

async function chat(
  call: Call,
  way: Way,
  changes: Partial<ChatBody> = {},
  heard: Heard = () => {},
): Promise<OpenAI.ChatCompletion> {
  const { completions } = connect(call).chat;
  const body = { messages: [hello], ...settingsOf(call), ...changes };
  if (way === "in JSON") return completions.create(body, optionsOf(call));
  const asked = { ...body, stream_options: { include_usage: true } };
  const stream = completions.stream(asked, optionsOf(call));
  stream.on("content", heard);
  return stream.finalChatCompletion();
}

async function respond(
  call: Call,
  way: Way,
  changes: Partial<ResponsesBody> = {},
  heard: Heard = () => {},
): Promise<OpenAI.Responses.Response> {
  const { responses } = connect(call);
  const body = { input: hello.content, ...settingsOf(call), ...changes };
  if (way === "in JSON") return responses.create(body, optionsOf(call));
  const stream = responses.stream(body, optionsOf(call));
  stream.on("response.output_text.delta", ({ delta }) => heard(delta));
  return stream.finalResponse();
}

function connect({ baseUrl, apiKey, fetch }: Call): OpenAI {
  return new OpenAI({ baseURL: baseUrl, apiKey, fetch, maxRetries: 0 });
}

function settingsOf({ model, asksForRefused }: Call) {
  return { model, ...(asksForRefused ? { service_tier: "priority" as const } : {}) };
}

function toldByChat({ choices: [choice], usage }: OpenAI.ChatCompletion): SdkResult {
  return {
    text: choice?.message.content ?? "",
    usage: {
      prompt: usage?.prompt_tokens ?? 0,
      completion: usage?.completion_tokens ?? 0,
      cached: usage?.prompt_tokens_details?.cached_tokens ?? 0,
    },
    finish: choice?.finish_reason ?? "",
  };
}

function toldByResponse({ output_text, usage, status }: OpenAI.Responses.Response): SdkResult {
  return {
    text: output_text,
    usage: {
      prompt: usage?.input_tokens ?? 0,
      completion: usage?.output_tokens ?? 0,
      cached: usage?.input_tokens_details.cached_tokens ?? 0,
    },
    finish: status === "completed" ? "stop" : String(status),
  };
}

/** The client's own class for a refusal, and the type that it is to name. */
const refusals: Readonly<
  Record<number, readonly [kind: abstract new (...told: never[]) => APIError, type: string]>
> = {
  400: [BadRequestError, "invalid_request_error"],
  401: [AuthenticationError, "auth_error"],
  402: [APIError, "billing_error"],
  404: [NotFoundError, "invalid_request_error"],
  429: [RateLimitError, "rate_limit_error"],
  502: [InternalServerError, "provider_error"],
};

/** Throws where the error is not of the class and the type that it should be, or names no request. */
function errorOf(error: unknown): SdkError {
  if (!(error instanceof APIError)) throw new Error("no error of the client's", { cause: error });
  const { message, requestID } = error;
  const status = error.status as number | undefined;
  // In a stream the head is long gone: the error's event has a type of its own, or only a code.
  const [kind, type] = refusals[status ?? 502] ?? [];
  const isKind = status === undefined || (kind !== undefined && error instanceof kind);
  const isType = error.type === type || (status === undefined && error.code === type);
  if (!isKind || !isType || !requestID?.startsWith("req_"))
    throw new Error(`${status} is raised as something else`, { cause: error });
  return { status, message };
}
