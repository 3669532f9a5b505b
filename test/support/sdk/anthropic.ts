import Anthropic, {
  APIError,
  AuthenticationError,
  BadRequestError,
  InternalServerError,
  NotFoundError,
  RateLimitError,
} from "@anthropic-ai/sdk";
import { jsonSchemaOutputFormat } from "@anthropic-ai/sdk/helpers/json-schema";
import {
  optionsOf,
  type Call,
  type SdkClient,
  type SdkError,
  type SdkResult,
  type Way,
} from "./client.ts";
import { objectSchema, tool } from "./script.ts";

type Body = Omit<Anthropic.MessageCreateParamsNonStreaming, "stream">;

/** Anthropic's own client. Its own helper follows its streams. */
export const anthropicClient: SdkClient = {
  name: "the anthropic client",
  endpoint: "messages",
  refusedField: "inference_geo",
  boundedFinish: "max_tokens",
  ask: async (call) => toldBy(await create(call, "in JSON")),
  stream: async (call, heard) => toldBy(await create(call, "as a stream", {}, heard)),
  async useTool(call, way, run) {
    const tools = [
      { name: tool.name, description: tool.description, input_schema: tool.parameters },
    ] as unknown as Anthropic.Tool[];
    const { content } = await create(call, way, { tools });
    const called = content.find((block) => block.type === "tool_use");
    if (called === undefined) throw new Error("no tool is called");
    const result = {
      type: "tool_result" as const,
      tool_use_id: called.id,
      content: run(called.input),
    };
    const messages: Anthropic.MessageParam[] = [
      hello,
      { role: "assistant", content },
      { role: "user", content: [result] },
    ];
    return toldBy(await create(call, way, { tools, messages }));
  },
  async askForObject(call) {
    const format = jsonSchemaOutputFormat(objectSchema);
    const body = { ...bodyOf(call), output_config: { format } };
    return (await anthropicOf(call).messages.parse(body, optionsOf(call))).parsed_output;
  },
  errorOf,
};

const hello = { role: "user", content: "hello" } as const;

/** The client, without retries. It adds `/v1` itself. */
function anthropicOf({ baseUrl, apiKey, fetch }: Omit<Call, "model">): Anthropic {
  // Null: the variables that it reads otherwise belong to the one who runs the tests.
  const credentials = { apiKey, authToken: null };
  return new Anthropic({
    baseURL: baseUrl.replace(/\/v1$/, ""),
    ...credentials,
    fetch,
    maxRetries: 0,
  });
}

async function create(
  call: Call,
  way: Way,
  changes: Partial<Body> = {},
  heard: (text: string) => void = () => {},
): Promise<Anthropic.Message> {
  const { messages } = anthropicOf(call);
  const body = { ...bodyOf(call), ...changes };
  if (way === "in JSON") return messages.create(body, optionsOf(call));
  const stream = messages.stream(body, optionsOf(call));
  stream.on("text", heard);
  return stream.finalMessage();
}

function bodyOf({ model, asksForRefused }: Call): Body {
  return {
    model,
    max_tokens: 100,
    messages: [hello],
    ...(asksForRefused ? { inference_geo: "us" } : {}),
  };
}

function toldBy({ content, usage, stop_reason }: Anthropic.Message): SdkResult {
  const cached = usage.cache_read_input_tokens ?? 0;
  return {
    text: content.map((block) => (block.type === "text" ? block.text : "")).join(""),
    usage: {
      prompt: usage.input_tokens + cached + (usage.cache_creation_input_tokens ?? 0),
      cached,
      completion: usage.output_tokens,
    },
    finish: stop_reason === "end_turn" ? "stop" : String(stop_reason),
  };
}

/** The client's own class for a refusal, and the types that it may name. */
const refusals: Readonly<
  Record<
    number,
    readonly [kind: abstract new (...told: never[]) => APIError, ...types: readonly string[]]
  >
> = {
  400: [BadRequestError, "invalid_request_error"],
  401: [AuthenticationError, "authentication_error"],
  402: [APIError, "billing_error"],
  404: [NotFoundError, "not_found_error"],
  429: [RateLimitError, "rate_limit_error"],
  502: [InternalServerError, "api_error", "overloaded_error"],
};

/** Throws where the error is not of the class and the type that it should be, or names no request. */
function errorOf(error: unknown): SdkError {
  if (!(error instanceof APIError)) throw new Error("no error of the client's", { cause: error });
  const { requestID, type, apiMessage } = error;
  const status = error.status as number | undefined;
  const [kind, ...types] = refusals[status ?? 502] ?? [];
  const isKind = status === undefined || (kind !== undefined && error instanceof kind);
  if (!isKind || !types.some((name) => name === type) || !requestID?.startsWith("req_"))
    throw new Error(`${status} is raised as something else`, { cause: error });
  return { status, message: apiMessage ?? "" };
}
