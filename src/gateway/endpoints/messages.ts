import { promptTokensMin } from "../../billing/cost.ts";
import { estimateTokens } from "../../billing/estimate.ts";
import {
  checkChatRequest,
  ownChatRules,
  type ChatRequest,
} from "../../contract/chat/chatRequest.ts";
import { ApiError, invalidRequest, type StreamFailure } from "../../contract/errors.ts";
import { namesWebSearch, unpricedWebSearch } from "../../contract/extras.ts";
import { longPromptCacheTtl } from "../../contract/requestFields.ts";
import { parseJsonObject } from "../../contract/jsonBody.ts";
import { messagesErrorBody, messagesFailure } from "../../contract/messages/messagesError.ts";
import { toolsAre, type MessagesRequest } from "../../contract/messages/messagesRequest.ts";
import { expensiveServicesOf } from "../../contract/servedTier.ts";
import { readMessagesUsage } from "../../contract/usage.ts";
import { parseExactly } from "../../lib/exactJson.ts";
import { fieldsOf, isJsonObject, type JsonFields, type JsonObjectText } from "../../lib/json.ts";
import { lazy } from "../../lib/lazy.ts";
import {
  AnswerError,
  decodeAnswer,
  parseAnswerJson,
  unsupported,
  UnsupportedRequestError,
} from "../../providers/provider.ts";
import { reportedFailureIn } from "../../providers/upstream.ts";
import type { Candidate } from "../../routing/candidates.ts";
import { admit, changedBound, type Admission } from "../admission/admit.ts";
import { callerFault, type AdmittedRequest } from "../admittedRequest.ts";
import type { Answer } from "../answer.ts";
import { answerJson, type ReadAnswer } from "../answerJson.ts";
import { billedUsage } from "../billedUsage.ts";
import { chatCandidatesOf, findModels, withoutRefusing, type CatalogModel } from "../catalog.ts";
import { identityOf } from "./chat.ts";
import { messageBlocksBytes } from "../decoding/generatedContent.ts";
import { MessagesDecoder } from "../decoding/messagesDecoder.ts";
import type { CheckedBody, Gateway, RequestContext } from "../gateway.ts";
import { serviceOf } from "../interfaces.ts";
import { messagesHeaders, ownMessagesText, refuseForeignFiles } from "./messagesRequest.ts";
import { ProviderChat } from "./providerChat.ts";
import { openStream } from "../streaming/openStream.ts";
import { MessagesForm, messagesStreamFailure } from "../translation/messages/chatToMessages.ts";
import { chatBodyOfMessages, stopsBeyondChat } from "../translation/messages/messagesToChat.ts";

/**
 * The path of a request in Anthropic's Messages interface. A provider of kind anthropic gets the client's text with only
 * `model` changed, and its bytes are returned. For the other kinds the request becomes a chat, and its answer a message.
 * Throws ApiError; the hold is released by then.
 */
export async function messages(
  gateway: Gateway,
  context: RequestContext,
  body: CheckedBody<MessagesRequest>,
): Promise<Answer> {
  const { request, object } = body;
  const named = findModels(context.snapshot.catalog, context.caller.models, request.model);
  const models = withoutRefusing(named, (model) => unpricedIn(context, model, request));
  const candidates = chatCandidatesOf(models);
  refuseForeignFiles(context, request.objectIds);
  const headers = messagesHeaders(context);
  const promptEstimate = estimateOf(request);
  const { requestId } = context;
  const translated = lazy(() => translate(gateway, context, object, promptEstimate));
  if (!candidates.some(isNative)) refuseUntranslatable(translated, candidates, request);
  const ownText = lazy(() => ownMessagesText(object));
  const admission = await admit(gateway, context, models, {
    endpoint: "messages",
    stream: request.stream,
    prompt: {
      bodyBytes: body.bodyBytes + addedPromptBytes(translated, candidates),
      messageCount: request.messageCount,
      unbounded: request.needsWholeContext,
      longCacheWrites: request.usesLongCacheTtl,
      webSearchesMax: request.webSearchesMax ?? 0,
    },
    promptEstimate,
    promptTokensMin: request.trimsPrompt ? 0 : promptTokensMin(request.promptSize.textBytes),
    attachmentTokens: request.promptSize.attachmentTokens,
    outputTokensBound: request.outputTokensBound,
    choiceCount: 1,
  });
  const admittedRequest: AdmittedRequest = {
    gateway,
    context,
    admission,
    candidates,
    encode(candidate) {
      const native = candidate.provider.adapter.messages;
      if (!native) return translated().encode(candidate, admission);
      const { model } = candidate.route;
      const outputTokensBound = changedBound(admission, candidate);
      refuseSmallBound(outputTokensBound, request);
      const { dropFields } = candidate.provider.config;
      return native.encode({ object: ownText(), model, headers, outputTokensBound, dropFields });
    },
    callerFault,
    streamFailure: (error) => messagesFailure(messagesErrorBody(error, requestId)),
  };
  const failure = failureOf(requestId);
  if (request.stream) {
    return openStream(admittedRequest, (candidate) =>
      isNative(candidate) ? new MessagesDecoder(failure) : translated().decoder(candidate),
    );
  }
  return answerJson(admittedRequest, {
    read: (answer, candidate) =>
      isNative(candidate)
        ? readMessage(answer, admission)
        : translated().read(answer, candidate, admission),
    usageMember: (candidate) =>
      (candidate.provider.adapter.messages ?? translated().interfaceFor(candidate)).usage,
  });
}

/** Whether the provider has the Messages interface itself. */
export function isNative(candidate: Candidate): boolean {
  return serviceOf("messages", candidate) === "native";
}

export function estimateOf({ promptSize }: Pick<MessagesRequest, "promptSize">): number {
  return estimateTokens(promptSize.textBytes, promptSize.nonTextParts);
}

/** The 400 of what the model's price list cannot express. It is refused before anything is sent. */
function unpricedIn(
  { snapshot }: RequestContext,
  model: CatalogModel,
  request: MessagesRequest,
): ApiError | undefined {
  const { sells } = model.config;
  // Other providers get a chat, which has neither.
  if (!model.chatCandidates.some(isNative)) return undefined;
  if (request.usesLongCacheTtl && !sells.longCacheWrites) return longPromptCacheTtl();
  if (request.webSearchType === undefined || sells.webSearches) return undefined;
  const isGiven = namesWebSearch(snapshot.config.api.allowedTools);
  return isGiven ? undefined : unpricedWebSearch(toolsAre(request.webSearchType));
}

/** 0 if the request cannot be translated: then only native routes get it. */
function addedPromptBytes(
  translated: () => ProviderChat,
  candidates: readonly Candidate[],
): number {
  const others = candidates.filter((candidate) => !isNative(candidate));
  if (others.length === 0) return 0;
  try {
    return translated().addedPromptBytes(others);
  } catch (error) {
    if (error instanceof UnsupportedRequestError) return 0;
    throw error;
  }
}

/** Throws ApiError 400 if no candidate can express the request. */
function refuseUntranslatable(
  translated: () => ProviderChat,
  candidates: readonly Candidate[],
  { outputTokensBound }: MessagesRequest,
): void {
  try {
    translated().refuseUnsupported(candidates, outputTokensBound);
  } catch (error) {
    if (error instanceof UnsupportedRequestError) throw invalidRequest(error.message);
    throw error;
  }
}

/** The bound of a fallback may leave no room for the reasoning that the client asks for. The provider refuses that. */
function refuseSmallBound(bound: number | undefined, { reasoningBudget }: MessagesRequest): void {
  if (bound !== undefined && bound <= reasoningBudget) throw unsupported("thinking.budget_tokens");
}

/** The request as a chat. Throws UnsupportedRequestError. */
function translate(
  gateway: Gateway,
  context: RequestContext,
  object: JsonObjectText,
  promptEstimate: number,
): ProviderChat {
  const body = fieldsOf(parseExactly(object.text));
  const chat = parseJsonObject({ text: JSON.stringify(chatBodyOfMessages(body)) });
  const request = { ...checkedChat(chat.value, context), moreStops: stopsBeyondChat(body) };
  const { requestId } = context;
  return new ProviderChat(
    request,
    chat.object,
    (model) => ({ ...identityOf(gateway, context, model), unknownFields: "forward" }),
    ({ model }, candidate) => {
      const estimate = gateway.promptCounts.nearer(candidate, promptEstimate);
      return new MessagesForm({ requestId, model, promptEstimate: estimate });
    },
    "messages",
  );
}

/**
 * Checks a translated chat. Throws UnsupportedRequestError: native routes may accept what a chat does not.
 */
function checkedChat(body: JsonFields, { snapshot }: RequestContext): ChatRequest {
  try {
    return checkChatRequest(body, ownChatRules(snapshot.config.api));
  } catch (error) {
    if (error instanceof ApiError) throw new UnsupportedRequestError(error.message);
    throw error;
  }
}

/** A separate function, because a stream retains its result (memory rules: docs/architecture.md). */
function failureOf(requestId: string): (error: StreamFailure) => string {
  return (error) => messagesStreamFailure(error, requestId);
}

/** Reads a message of a provider of kind anthropic. Throws AnswerError. */
function readMessage(answer: Uint8Array, admission: Admission): ReadAnswer {
  const message = parseMessage(decodeAnswer(answer));
  const read = {
    usage: readMessagesUsage(message["usage"]),
    isUsageFinal: true,
    get textBytes() {
      return messageBlocksBytes(message["content"]);
    },
  };
  return {
    body: answer,
    billed: billedUsage(admission, read),
    expensiveServices: expensiveServicesOf(message["usage"]),
    objects: [],
    historyTokens: 0,
    model: message["model"],
    finishReasons: [message["stop_reason"]],
  };
}

function parseMessage(text: string): JsonFields {
  const value = parseAnswerJson(text);
  if (isJsonObject(value) && Array.isArray(value["content"]) && !isJsonObject(value["error"]))
    return value;
  throw reportedFailureIn(value) ?? new AnswerError("the answer is not a message");
}
