import { promptTokensMin } from "../../billing/cost.ts";
import { estimateTokens } from "../../billing/estimate.ts";
import type { ApiError } from "../../contract/errors.ts";
import { invalidRequest, type StreamFailure } from "../../contract/errors.ts";
import { servicesOf } from "../../contract/serviceTier.ts";
import { askedWithCache, longPromptCacheTtl } from "../../contract/requestFields.ts";
import {
  codeRunsOf,
  messagesErrorBody,
  messagesFailure,
} from "../../contract/messages/messagesAnswer.ts";
import {
  checkMessagesRequest,
  type MessagesRequest,
} from "../../contract/messages/messagesRequest.ts";
import { readMessagesUsage } from "../../contract/usage.ts";
import { assert } from "../../lib/assert.ts";
import { isJsonObject, textOf, type JsonFields, type JsonObjectText } from "../../lib/json.ts";
import { lazy } from "../../lib/lazy.ts";
import {
  AnswerError,
  decodeAnswer,
  parseAnswerJson,
  unsupported,
  UnsupportedRequestError,
  type EncodedRequest,
  type MessagesInterface,
  type UsageMember,
} from "../../providers/provider.ts";
import { reportedFailureIn } from "../../providers/upstream.ts";
import type { Candidate } from "../../routing/candidates.ts";
import { sessionOf } from "../admission/session.ts";
import { admit, changedBound } from "../admission/admit.ts";
import { modelsThatSell } from "../admission/soldExtras.ts";
import type { Answer } from "../answer.ts";
import { answerJson } from "../answerJson.ts";
import { billedUsage } from "../billedUsage.ts";
import { chatCandidatesOf, findModels, type CatalogModel } from "../catalog.ts";
import { pricesFor } from "../soldPrices.ts";
import { identityOf } from "./chat.ts";
import { messageBlocksBytes } from "../decoding/generatedContent.ts";
import { MessagesDecoder } from "../decoding/messagesDecoder.ts";
import { serviceOf } from "../interfaces.ts";
import { EitherCall, type ProviderCall, type ReadAnswer } from "../providerCall.ts";
import { checkBody, largeChat, taskRunner } from "../largeBodies/checkBody.ts";
import { withChecked, type AdmittedScope, type RequestScope } from "../requestScope.ts";
import { messagesHeaders, ownMessages, refuseForeignFiles } from "./messagesRequest.ts";
import { ChatCall, type ChatSource } from "./chatCall.ts";
import { openStream } from "../streaming/openStream.ts";
import { MessagesForm, messagesStreamFailure } from "../translation/messages/chatToMessages.ts";
import { messagesAsChat } from "../translation/messages/messagesAsChat.ts";

/**
 * The path of a request in Anthropic's Messages interface. A provider of kind anthropic gets the client's text with only
 * `model` changed, and its bytes are returned. For the other kinds the request becomes a chat, and its answer a message.
 * Throws ApiError; the hold is released by then.
 */
export async function messages(scope: RequestScope, body: Uint8Array): Promise<Answer> {
  const { request, object, sessionName } = await checkBody(
    scope,
    body,
    "checkMessages",
    checkMessagesRequest,
  );
  const { model, stream, outputTokensBound, promptSize } = request;
  scope.addLogFields({ endpoint: "messages", model, stream });
  const named = findModels(scope.snapshot.catalog, scope.caller.models, model);
  const models = modelsThatSell(scope, "messages", request, named, (one) =>
    longCacheIn(scope, one, request),
  );
  const candidates = chatCandidatesOf(models);
  refuseForeignFiles(scope, request.objectIds);
  const ownText = (): ReturnType<typeof ownMessages> =>
    ownMessages(object, taskRunner(scope, object));
  const native = new NativeMessages(request, ownText, messagesHeaders(scope), scope.requestId);
  const promptEstimate = estimateOf(request);
  const others = candidates.filter((candidate) => !isNative(candidate));
  const translated =
    others.length === 0 ? undefined : await translate(scope, object, promptEstimate);
  if (others.length === candidates.length)
    await refuseUntranslatable(translated, candidates, request);
  const addedBytes = translated instanceof ChatCall ? await translated.addedPromptBytes(others) : 0;
  const checked = withChecked(scope, {
    endpoint: "messages",
    stream,
    serviceTier: request.serviceTier,
    models,
    candidates,
    session: sessionOf(scope, candidates, sessionName),
    prompt: {
      bodyBytes: object.bytes.length + addedBytes,
      messageCount: request.messageCount,
      unbounded: request.needsWholeContext,
      asked: askedWithCache(request),
      most: request.most,
    },
    promptEstimate,
    promptTokensMin: request.trimsPrompt ? 0 : promptTokensMin(promptSize.textBytes),
    attachmentTokens: promptSize.attachmentTokens,
    outputTokensBound,
    choiceCount: 1,
  });
  const admitted = await admit(checked);
  const call = new EitherCall({ isNative, native, chat: () => chatOf(translated) });
  if (!stream) return answerJson(admitted, call);
  return openStream(admitted, call, (error) =>
    messagesFailure(messagesErrorBody(error, scope.requestId)),
  );
}

/** A provider of kind anthropic gets the client's text, and its bytes are returned. */
class NativeMessages implements ProviderCall {
  readonly #request: MessagesRequest;
  readonly #ownText: () => JsonObjectText | Promise<JsonObjectText>;
  readonly #headers: Readonly<Record<string, string>>;
  readonly #requestId: string;

  constructor(
    request: MessagesRequest,
    ownText: () => JsonObjectText | Promise<JsonObjectText>,
    headers: Readonly<Record<string, string>>,
    requestId: string,
  ) {
    this.#request = request;
    this.#ownText = lazy(ownText);
    this.#headers = headers;
    this.#requestId = requestId;
  }

  encode(scope: AdmittedScope, candidate: Candidate): EncodedRequest | Promise<EncodedRequest> {
    const { provider, route } = candidate;
    const outputTokensBound = changedBound(scope, candidate);
    refuseSmallBound(outputTokensBound, this.#request);
    const encoded = (object: JsonObjectText): EncodedRequest =>
      interfaceOf(candidate).encode({
        object,
        model: route.model,
        headers: this.#headers,
        outputTokensBound,
        dropFields: provider.config.dropFields,
      });
    const text = this.#ownText();
    return text instanceof Promise ? text.then(encoded) : encoded(text);
  }

  decoder(): MessagesDecoder {
    return new MessagesDecoder(failureOf(this.#requestId), this.#request.runsCodeFree);
  }

  read(scope: AdmittedScope, answer: Uint8Array): ReadAnswer {
    const message = parseMessage(decodeAnswer(answer));
    const read = {
      usage: readMessagesUsage(
        message["usage"],
        this.#request.runsCodeFree,
        codeRunsOf(message["content"]),
      ),
      isUsageFinal: true,
      get textBytes() {
        return messageBlocksBytes(message["content"]);
      },
    };
    return {
      body: answer,
      billed: billedUsage(scope, read),
      services: servicesOf(message["usage"]),
      objects: [],
      historyTokens: 0,
      model: message["model"],
      finishReasons: [message["stop_reason"]],
    };
  }

  usageMember(candidate: Candidate): UsageMember {
    return interfaceOf(candidate).usage;
  }
}

function interfaceOf({ provider }: Candidate): MessagesInterface {
  const { messages: own } = provider.adapter;
  assert(own !== undefined, "a native route without the Messages interface");
  return own;
}

/** Whether the provider has the Messages interface itself. */
export function isNative(candidate: Candidate): boolean {
  return serviceOf("messages", candidate) === "native";
}

export function estimateOf({ promptSize }: Pick<MessagesRequest, "promptSize">): number {
  return estimateTokens(promptSize.textBytes, promptSize.nonTextParts);
}

/** The 400 of a cache write for an hour, unless the model sells it. Other providers get a chat, which has none. */
function longCacheIn(
  scope: RequestScope,
  { config, chatCandidates }: CatalogModel,
  { usesLongCacheTtl }: MessagesRequest,
): ApiError | undefined {
  if (!usesLongCacheTtl || !chatCandidates.some(isNative)) return undefined;
  return pricesFor(scope, config).sells.cacheWrite1hTokens ? undefined : longPromptCacheTtl();
}

/** A request as a chat, or why that is not possible: then only native routes get it. */
type Translated = ChatCall | UnsupportedRequestError | undefined;

function chatOf(translated: Translated): ChatCall {
  assert(translated !== undefined, "a native request is sent as a chat");
  if (translated instanceof UnsupportedRequestError) throw translated;
  return translated;
}

/** Rejects with ApiError 400 if no candidate can express the request. */
async function refuseUntranslatable(
  translated: Translated,
  candidates: readonly Candidate[],
  { outputTokensBound }: MessagesRequest,
): Promise<void> {
  if (translated instanceof UnsupportedRequestError) throw invalidRequest(translated.message);
  await translated?.refuseUnsupported(candidates, outputTokensBound);
}

/** The bound of a fallback may leave no room for the reasoning that the client asks for. The provider refuses that. */
function refuseSmallBound(bound: number | undefined, { reasoningBudget }: MessagesRequest): void {
  if (bound !== undefined && bound <= reasoningBudget) throw unsupported("thinking.budget_tokens");
}

async function translate(
  scope: RequestScope,
  object: JsonObjectText,
  promptEstimate: number,
): Promise<ChatCall | UnsupportedRequestError> {
  try {
    const rules = scope.snapshot.config.api;
    const runTask = taskRunner(scope, object);
    const chat = runTask
      ? largeChat(scope, await runTask("translateMessages", rules))
      : { ...messagesAsChat(textOf(object), rules), runTask };
    return chatCallOf(scope, chat, promptEstimate);
  } catch (error) {
    if (error instanceof UnsupportedRequestError) return error;
    throw error;
  }
}

function chatCallOf(
  scope: RequestScope,
  chat: Omit<ChatSource, "endpoint">,
  promptEstimate: number,
): ChatCall {
  const { requestId, gateway } = scope;
  return new ChatCall(
    { ...chat, endpoint: "messages" },
    (model) => ({ ...identityOf(scope, model), unknownFields: "forward" }),
    ({ model }, candidate) => {
      const estimate = gateway.promptCounts.nearer(candidate, promptEstimate);
      return new MessagesForm({ requestId, model, promptEstimate: estimate });
    },
  );
}

/** A separate function, because a stream retains its result (memory rules: docs/contribute/architecture.md). */
function failureOf(requestId: string): (error: StreamFailure) => string {
  return (error) => messagesStreamFailure(error, requestId);
}

/** Throws AnswerError for what is no message. */
function parseMessage(text: string): JsonFields {
  const value = parseAnswerJson(text);
  if (isJsonObject(value) && Array.isArray(value["content"]) && !isJsonObject(value["error"]))
    return value;
  throw reportedFailureIn(value) ?? new AnswerError("the answer is not a message");
}
