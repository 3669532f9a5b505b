import {
  HumanMessage,
  ToolMessage,
  type AIMessageChunk,
  type BaseMessage,
  type UsageMetadata,
} from "@langchain/core/messages";
import { ChatOpenAI, type ChatOpenAICallOptions } from "@langchain/openai";
import { optionsOf, type Call, type SdkError, type SdkClient, type SdkResult } from "./client.ts";
import { objectSchema, tool } from "./script.ts";

/** LangChain, on each interface. */
export const langchainClients: readonly SdkClient[] = [
  client("LangChain, chat", "chat", "length"),
  client("LangChain, responses", "responses", "incomplete"),
];

function client(name: string, endpoint: SdkClient["endpoint"], boundedFinish: string): SdkClient {
  const model = (call: Call) => connect(call, endpoint === "responses");
  return {
    name,
    endpoint,
    refusedField: "service_tier priority",
    boundedFinish,
    ask: async (call) => toldBy(await model(call).invoke([hello], optionsOf(call))),
    stream: async (call, heard) =>
      toldBy(await follow(model(call), [hello], optionsOf(call), heard)),
    async useTool(call, way, run) {
      const options = { tools: [{ type: "function" as const, function: tool }] };
      const talk = (messages: BaseMessage[]): Promise<AIMessageChunk> =>
        way === "in JSON"
          ? model(call).invoke(messages, options)
          : follow(model(call), messages, options);
      const asking = await talk([hello]);
      const [called] = asking.tool_calls ?? [];
      if (called === undefined) throw new Error("no tool is called");
      const result = new ToolMessage({ content: run(called.args), tool_call_id: called.id ?? "" });
      return toldBy(await talk([hello, asking, result]));
    },
    askForObject: (call) =>
      model(call)
        .withStructuredOutput(objectSchema, { name: "weather", method: "jsonSchema" })
        .invoke([hello]),
    errorOf,
  };
}

const hello = new HumanMessage("hello");

function connect({ baseUrl, apiKey, fetch, ...call }: Call, useResponsesApi: boolean): ChatOpenAI {
  return new ChatOpenAI({
    model: call.model,
    apiKey,
    useResponsesApi,
    maxRetries: 0,
    configuration: { baseURL: baseUrl, fetch },
    ...(call.asksForRefused ? { service_tier: "priority" as const } : {}),
  });
}

/** Puts the chunks of a stream together, as the documentation says. */
async function follow(
  model: ChatOpenAI,
  messages: BaseMessage[],
  options: Partial<ChatOpenAICallOptions>,
  heard: (text: string) => void = () => {},
): Promise<AIMessageChunk> {
  let whole: AIMessageChunk | undefined;
  for await (const chunk of await model.stream(messages, options)) {
    heard(chunk.text);
    whole = whole?.concat(chunk) ?? chunk;
  }
  if (whole === undefined) throw new Error("the stream says nothing");
  return whole;
}

/** What LangChain tells beside the text: of a chat why it ended, of a response what became of it. */
interface Metadata {
  readonly finish_reason?: string;
  readonly status?: string;
}

function toldBy(answer: AIMessageChunk): SdkResult {
  const usage = answer.usage_metadata as UsageMetadata | undefined;
  const { finish_reason: reason, status } = answer.response_metadata as Metadata;
  return {
    text: answer.text,
    usage: {
      prompt: usage?.input_tokens ?? 0,
      completion: usage?.output_tokens ?? 0,
      cached: usage?.input_token_details?.cache_read ?? 0,
    },
    finish: status === "completed" ? "stop" : (reason ?? status ?? ""),
  };
}

/** Its errors are those of the official client, with an addition after the message. */
function errorOf(error: unknown): SdkError {
  const { status } = error as { status?: number };
  return { status, message: error instanceof Error ? error.message : String(error) };
}
