import { expect } from "bun:test";
import {
  checkChatRequest,
  ownChatRules,
  type ChatRequest,
} from "../../../src/contract/chat/chatRequest.ts";
import { parseJsonObject } from "../../../src/contract/jsonBody.ts";
import { noUsage, type Usage } from "../../../src/contract/usage.ts";
import {
  publicCompletion,
  publicUsage,
  type AnswerIdentity,
} from "../../../src/gateway/decoding/publicAnswer.ts";
import { ChatDecoder } from "../../../src/gateway/decoding/chatDecoder.ts";
import { ChatForm } from "../../../src/gateway/decoding/chatForm.ts";
import {
  UnsupportedRequestError,
  type ChatCall,
  type ChatInterface,
} from "../../../src/providers/provider.ts";
import { isJsonObject } from "../../../src/lib/json.ts";
import { sentText } from "../../support/provider/sentText.ts";
import type { Dialect, ExpectedAnswer, ExpectedCall, ExpectedUsage } from "./dialect.ts";

const identity: AnswerIdentity = {
  id: "chatcmpl-test",
  model: "asked-for",
  created: 1_700_000_000,
  unknownFields: "forward",
};

export const providersModel = "model-of-the-provider";
export const outputTokensMax = 64_000;

/** What some of the requests ask for that may cost more than tokens. It may still have no counterpart. */
const EXTRAS: readonly string[] = [
  "",
  "a",
  "web",
  "googleSearch",
  "code_execution",
  "modalities",
  "audio",
  "web_search_options",
];

/** A request of this text, on its way to a provider. The text needs no model. */
export function callOf(text: string): ChatCall {
  const { value, object } = parseJsonObject(text.replace("{", '{"model":"asked-for",'));
  const request: ChatRequest = checkChatRequest(value, ownChatRules({ allowedTools: EXTRAS }));
  return {
    request,
    object,
    model: providersModel,
    outputTokensBound: request.outputTokensBound,
    outputTokensMax: request.outputTokensBound ?? outputTokensMax,
    options: {
      maxTokensField: "max_tokens",
      streamUsage: true,
      dropMessageFields: [],
      dropFields: [],
    },
  };
}

export const hello = { role: "user", content: "hello" };

/** The body that a provider is sent for a chat with these fields, beside a message of the user's. */
export function sentFor(
  chat: ChatInterface,
  fields: object,
  changes: Partial<ChatCall> = {},
): string {
  const call = callOf(JSON.stringify({ messages: [hello], ...fields }));
  return sentText(chat.encode({ ...call, ...changes }));
}

/** The error of a request that means something that a provider cannot. */
export function notSupported(what: string): UnsupportedRequestError {
  return new UnsupportedRequestError(`${what} is not supported by this model's provider`);
}

/** What a client gets of an answer in JSON, with the usage that was found in it. */
export function readWhole(
  dialect: Dialect,
  text: string,
): { received: ReceivedAnswer; usage: Usage | undefined } {
  const { completion, usage } = dialect.chat.read(text);
  const { choices } = publicCompletion(completion, identity).completion;
  const [choice] = choices;
  if (choice === undefined || choices.length > 1) throw new Error("not one choice");
  return {
    received: {
      text: choice.message.content,
      reasoning: textOf(choice.message["reasoning_content"]),
      toolCalls: callsOf(choice.message["tool_calls"]),
      finish: choice.finish_reason,
      reasoningTokens: reasoningTokensOf(
        publicUsage(usage ?? noUsage, completion["usage"], identity),
      ),
    },
    usage,
  };
}

/** Runs a stream through the gateway's decoder, in these pieces. */
export function readStream(
  dialect: Dialect,
  ...pieces: readonly Uint8Array[]
): { bytes: string; decoder: ChatDecoder } {
  const decoder = new ChatDecoder({
    readEvent: dialect.chat.events(),
    identity,
    choiceCount: 1,
    form: new ChatForm(identity, true),
    eventsStandAlone: dialect.chat.eventsStandAlone,
  });
  let bytes = "";
  for (const piece of pieces) {
    decoder.push(piece);
    bytes += decoder.take() ?? "";
  }
  if (!decoder.isClosed) decoder.end();
  expect(decoder.isFinished).toBe(true);
  return { bytes: bytes + decoder.ending(decoder.usage ?? noUsage), decoder };
}

/** What a client hears in a stream. Its deltas must be such that any client can put them together. */
export function receivedIn(bytes: string): ReceivedAnswer {
  const events = bytes.split("\n\n").slice(0, -1);
  expect(events.pop()).toBe("data: [DONE]");
  let text = "";
  let reasoning = "";
  const calls: { id: string; name: string; arguments: string }[] = [];
  let finish: unknown;
  let usage: unknown;
  for (const event of events) {
    const chunk = JSON.parse(event.slice("data: ".length)) as Record<string, unknown>;
    expect(finish).toBeUndefined();
    const [choice, ...others] = chunk["choices"] as Record<string, unknown>[];
    expect([choice?.["index"], others]).toEqual([0, []]);
    const delta = choice?.["delta"] as Record<string, unknown>;
    text += textOf(delta["content"]) ?? "";
    reasoning += textOf(delta["reasoning_content"]) ?? "";
    for (const call of (delta["tool_calls"] ?? []) as DeltaCall[]) {
      // As clients do it: the first piece of a call opens it, the next ones add to its arguments.
      if (call.index === calls.length) {
        expect([typeof call.id, call.type, typeof call.function.name]).toEqual([
          "string",
          "function",
          "string",
        ]);
        calls.push({ id: call.id ?? "", name: call.function.name ?? "", arguments: "" });
      }
      const open = calls[call.index];
      if (open === undefined) throw new Error("a call was added to that was not opened");
      open.arguments += call.function.arguments ?? "";
    }
    finish = choice?.["finish_reason"] ?? undefined;
    usage = chunk["usage"];
  }
  return {
    text,
    reasoning: reasoning === "" ? undefined : reasoning,
    toolCalls: calls.map(understood),
    finish,
    reasoningTokens: reasoningTokensOf(usage),
  };
}

/** An answer as its client understands it. */
export interface ReceivedAnswer {
  readonly text: string;
  readonly reasoning: string | undefined;
  readonly toolCalls: readonly unknown[];
  readonly finish: unknown;
  readonly reasoningTokens: unknown;
}

export function receivedAnswerOf(answer: ExpectedAnswer): Omit<ReceivedAnswer, "reasoningTokens"> {
  return {
    text: answer.text ?? "",
    reasoning: answer.reasoning,
    toolCalls: (answer.toolCalls ?? []).map(understood),
    finish: answer.finish,
  };
}

export function billedOf(dialect: Dialect, usage: ExpectedUsage | undefined): Usage | undefined {
  return (
    usage && {
      ...noUsage,
      promptTokens: usage.prompt,
      cachedTokens: usage.cached,
      cacheWriteTokens: dialect.reportsCacheWrites ? usage.cacheWrite : 0,
      cacheWrite1hTokens: usage.cacheWrite1h ?? 0,
      completionTokens: usage.completion,
      webSearches: usage.webSearches ?? 0,
    }
  );
}

interface DeltaCall {
  readonly index: number;
  readonly id?: string;
  readonly type?: string;
  readonly function: { readonly name?: string; readonly arguments?: string };
}

/** A call by what its arguments mean: their text may come with other blanks. */
function understood({ id, name, arguments: given }: ExpectedCall): object {
  return { id, name, arguments: JSON.parse(given) as unknown };
}

function callsOf(value: unknown): readonly unknown[] {
  return ((value ?? []) as { id: string; function: { name: string; arguments: string } }[]).map(
    ({ id, function: called }) => understood({ id, ...called }),
  );
}

function textOf(value: unknown): string | undefined {
  return typeof value === "string" ? value : undefined;
}

function reasoningTokensOf(usage: unknown): unknown {
  const details = isJsonObject(usage) ? usage["completion_tokens_details"] : undefined;
  return isJsonObject(details) ? details["reasoning_tokens"] : undefined;
}
