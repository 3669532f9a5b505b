import { noExtras, promptTokensMin, type PromptExtent } from "../../billing/cost.ts";
import { estimateTokens } from "../../billing/estimate.ts";
import { ApiError, invalidRequest } from "../../contract/errors.ts";
import {
  checkResponsesRequest,
  finishReasonsOf,
  providerCallsOf,
  toolCountsOf,
  type ResponsesRequest,
} from "../../contract/responses.ts";
import { longPromptCacheTtl } from "../../contract/requestFields.ts";
import { servicesOf } from "../../contract/serviceTier.ts";
import { readResponsesUsage } from "../../contract/usage.ts";
import { isJsonObject, textOf, type JsonFields, type JsonObjectText } from "../../lib/json.ts";
import { lazy } from "../../lib/lazy.ts";
import {
  AnswerError,
  decodeAnswer,
  parseAnswerJson,
  UnsupportedRequestError,
  type EncodedRequest,
  type NativeCall,
  type UsageMember,
} from "../../providers/provider.ts";
import { reportedFailureIn } from "../../providers/upstream.ts";
import type { Candidate } from "../../routing/candidates.ts";
import { sessionOf } from "../admission/session.ts";
import { admit, changedBound } from "../admission/admit.ts";
import { modelsThatSell, toolCallsMaxOf } from "../admission/soldExtras.ts";
import { answerJson } from "../answerJson.ts";
import type { Answer } from "../answer.ts";
import { chatCandidatesOf, findModels, type ModelChain } from "../catalog.ts";
import { billedUsage, historyTokensOf, isFailureBilled } from "../billedUsage.ts";
import { serviceOf } from "../interfaces.ts";
import { EitherCall, type ProviderCall, type ReadAnswer } from "../providerCall.ts";
import { checkBody, largeChat, taskRunner } from "../largeBodies/checkBody.ts";
import type { RunTask } from "../largeBodies/largeBodies.ts";
import { largeText } from "../largeBodies/largeText.ts";
import { withChecked, type AdmittedScope, type RequestScope } from "../requestScope.ts";
import { openStream } from "../streaming/openStream.ts";
import { pinToProvider, type PinnedCandidates } from "../admission/objectOwnership.ts";
import { ResponsesForm } from "../translation/responses/chatToResponses.ts";
import {
  mayHaveOwnReasoning,
  ownResponsesText,
} from "../translation/responses/encryptedContent.ts";
import { responsesAsChat, type ResponsesChat } from "../translation/responses/responsesAsChat.ts";
import {
  readSettings,
  type ResponsesSettings,
} from "../translation/responses/responsesSettings.ts";
import type { AnswerIdentity } from "../decoding/publicAnswer.ts";
import { identityOf } from "./chat.ts";
import { ChatCall } from "./chatCall.ts";
import { refuseForeignFiles } from "./messagesRequest.ts";
import { objectsOf, ResponsesDecoder, responsesFailure } from "../decoding/responsesDecoder.ts";
import { outputBytes } from "../decoding/generatedContent.ts";

/**
 * The path of a responses request. Over a route with the responses interface the client's text is sent with only `model`
 * changed, and the provider's bytes are returned. Over other routes it is translated into a chat, if it needs no stored
 * response. Throws ApiError; the hold is released by then.
 */
export async function responses(scope: RequestScope, body: Uint8Array): Promise<Answer> {
  const { request, object, sessionName } = await checkBody(
    scope,
    body,
    "checkResponses",
    checkResponsesRequest,
  );
  const { model, stream, outputTokensBound, promptSize } = request;
  scope.addLogFields({ endpoint: "responses", model, stream });
  const named = findModels(scope.snapshot.catalog, scope.caller.models, model);
  const models = modelsThatSell(scope, "responses", request, named);
  const plan = await planOf(scope, request, object, models);
  const { candidates, translated } = plan;
  const checked = withChecked(scope, {
    endpoint: "responses",
    stream,
    serviceTier: request.serviceTier,
    models,
    candidates,
    session: sessionOf(scope, candidates, sessionName),
    prompt: await promptOf(request, object.bytes.length, plan),
    promptEstimate: promptEstimateOf(request, plan, models),
    promptTokensMin: request.trimsPrompt ? 0 : promptTokensMin(promptSize.textBytes),
    attachmentTokens: promptSize.attachmentTokens,
    outputTokensBound,
    choiceCount: request.choiceCount,
  });
  const admitted = await admit(checked);
  const native = new NativeResponses(request, object, taskRunner(scope, object));
  const call = translated
    ? new EitherCall({ isNative, native, chat: () => translated.chat })
    : native;
  if (!stream) return answerJson(admitted, call);
  return openStream(admitted, call, (error) => responsesFailure(0, error.toBody().error));
}

/** How a request is served: over its candidates, natively or translated. */
interface Plan {
  readonly candidates: readonly Candidate[];
  /** Serves the candidates without the responses interface. Undefined if there are none of them. */
  readonly translated: TranslatedResponse | undefined;
  /** Prompt tokens of the stored conversation. */
  readonly storedTokens: number;
}

/** Throws ApiError if no route can serve the request. */
async function planOf(
  scope: RequestScope,
  request: ResponsesRequest,
  object: JsonObjectText,
  models: ModelChain,
): Promise<Plan> {
  const chatCandidates = chatCandidatesOf(models);
  const responsesCandidates = models.flatMap((model) => model.responsesCandidates);
  const pin = (): Promise<PinnedCandidates> => pinToProvider(scope, request, responsesCandidates);
  const others = chatCandidates.filter((candidate) => !isNative(candidate));
  // The provider of a native route keeps the response, and the client may name it.
  const isNativeOnly = request.mayBeKept && models[0].responsesCandidates.length > 0;
  if (others.length === 0 || isNativeOnly) return { ...(await pin()), translated: undefined };
  const translated = await translateResponse(scope, object);
  if (translated instanceof ApiError) {
    if (responsesCandidates.length === 0) throw translated;
    return { ...(await pin()), translated: undefined };
  }
  const none: PinnedCandidates = { candidates: [], storedTokens: 0 };
  const native = (await pinned(pin)) ?? none;
  if (native.candidates.length === 0) {
    await translated.chat.refuseUnsupported(others, request.outputTokensBound);
  }
  const candidates = chatCandidates.filter(
    (candidate) => !isNative(candidate) || native.candidates.includes(candidate),
  );
  return { candidates, translated, storedTokens: native.storedTokens };
}

/** Undefined if the request names a stored object that no native route may use. A translated one does not need it. */
async function pinned(pin: () => Promise<PinnedCandidates>): Promise<PinnedCandidates | undefined> {
  try {
    return await pin();
  } catch (error) {
    if (error instanceof ApiError) return undefined;
    throw error;
  }
}

/** Whether the provider has the responses interface itself. */
function isNative(candidate: Candidate): boolean {
  return serviceOf("responses", candidate) === "native";
}

/** The larger of what is sent to native routes and to others. */
async function promptOf(
  request: ResponsesRequest,
  bodyBytes: number,
  { candidates, translated }: Plan,
): Promise<PromptExtent> {
  const unbounded = request.needsWholeContext;
  const { asked, most } = request;
  const native = { bodyBytes, messageCount: 0, unbounded, asked, most };
  if (!translated) return native;
  const { chat, prompt } = translated;
  const chatBytes = prompt.bodyBytes + (await chat.addedPromptBytes(candidates));
  if (!candidates.some(isNative)) return { ...prompt, bodyBytes: chatBytes, asked };
  return {
    ...native,
    bodyBytes: Math.max(bodyBytes, chatBytes),
    messageCount: prompt.messageCount,
    unbounded: unbounded || prompt.unbounded,
  };
}

/** The estimate includes the stored conversation, at most `context_tokens`: a provider truncates what is longer. */
function promptEstimateOf(
  { promptSize }: ResponsesRequest,
  { candidates, translated, storedTokens }: Plan,
  [{ config }]: ModelChain,
): number {
  if (translated && !candidates.some(isNative)) return translated.promptEstimate;
  const ownTokens = estimateTokens(promptSize.textBytes, promptSize.nonTextParts);
  return storedTokens === 0 ? ownTokens : Math.min(storedTokens + ownTokens, config.contextTokens);
}

/** A route with the responses interface gets the client's text, and its bytes are returned. */
class NativeResponses implements ProviderCall {
  readonly #tools: Pick<ResponsesRequest, "most" | "toolCallsMax">;
  readonly #ownText: () => JsonObjectText | Promise<JsonObjectText>;

  constructor(
    { most, toolCallsMax }: ResponsesRequest,
    object: JsonObjectText,
    runTask: RunTask | undefined,
  ) {
    this.#tools = { most, toolCallsMax };
    this.#ownText = lazy(() => ownResponses(object, runTask));
  }

  encode(scope: AdmittedScope, candidate: Candidate): EncodedRequest | Promise<EncodedRequest> {
    const bounds = {
      outputTokensBound: changedBound(scope, candidate),
      toolCallsMax: toolCallsMaxOf(scope, this.#tools, candidate.model),
    };
    const text = this.#ownText();
    return text instanceof Promise
      ? text.then((own) => encodeResponses(own, candidate, bounds))
      : encodeResponses(text, candidate, bounds);
  }

  decoder(): ResponsesDecoder {
    return new ResponsesDecoder();
  }

  read(scope: AdmittedScope, received: Uint8Array): ReadAnswer {
    const response = parseResponse(decodeAnswer(received));
    const isFailed = response["status"] === "failed";
    const counts = toolCountsOf(response);
    const read = {
      usage: readResponsesUsage(response["usage"], counts),
      counts,
      isUsageFinal: true,
      providerCalls: providerCallsOf(response["output"]),
      textBytes: outputBytes(response["output"]),
    };
    const billed = isFailed && !isFailureBilled(read) ? undefined : billedUsage(scope, read);
    return {
      body: received,
      billed,
      isFailed,
      hasProviderCalls: read.providerCalls > 0,
      services: servicesOf(response),
      objects: objectsOf(response),
      historyTokens: historyTokensOf(scope, read),
      model: response["model"],
      finishReasons: finishReasonsOf(response),
    };
  }

  usageMember({ provider }: Candidate): UsageMember | undefined {
    return provider.adapter.responses?.usage;
  }
}

function ownResponses(
  object: JsonObjectText,
  runTask: RunTask | undefined,
): JsonObjectText | Promise<JsonObjectText> {
  if (!mayHaveOwnReasoning(object)) return object;
  if (!runTask) return ownResponsesText(object);
  return runTask("ownResponses", object.members).then((own) => (own ? largeText(own) : object));
}

/** Parses a JSON answer into a response object. Throws AnswerError, or ReportedFailure for an error object. */
export function parseResponse(text: string): JsonFields {
  const value = parseAnswerJson(text);
  if (isJsonObject(value) && value["object"] === "response") return value;
  throw reportedFailureIn(value) ?? new AnswerError("the answer is not a response");
}

/** Encodes the client's text for a route that serves the responses interface. The bounds replace the client's. */
export function encodeResponses(
  object: JsonObjectText,
  { provider, route }: Candidate,
  bounds: Pick<NativeCall, "outputTokensBound" | "toolCallsMax"> = {},
): EncodedRequest {
  const { responses } = provider.adapter;
  if (!responses) throw new Error(`provider ${provider.id} has no responses interface`);
  const { dropFields } = provider.config;
  return responses.encode({
    object,
    model: route.model,
    headers: {},
    ...bounds,
    dropFields,
  });
}

/** A responses request as a chat, for routes without the responses interface. */
interface TranslatedResponse {
  readonly chat: ChatCall;
  readonly prompt: PromptExtent;
  readonly promptEstimate: number;
}

/** Translates a responses request into a chat. Returns the ApiError of a request that a chat cannot express. */
async function translateResponse(
  scope: RequestScope,
  object: JsonObjectText,
): Promise<TranslatedResponse | ApiError> {
  try {
    const rules = scope.snapshot.config.api;
    const runTask = taskRunner(scope, object);
    if (!runTask) return translated(scope, responsesAsChat(textOf(object), rules), undefined);
    const { settings, ...task } = await runTask("translateResponses", rules);
    const chat = largeChat(scope, task);
    return translated(scope, { ...chat, settings: readSettings(settings) }, chat.runTask);
  } catch (error) {
    if (error instanceof UnsupportedRequestError) return invalidRequest(error.message);
    if (error instanceof ApiError) return error;
    throw error;
  }
}

/** Throws ApiError like a chat with the same content. */
function translated(
  scope: RequestScope,
  { request, object, settings }: ResponsesChat,
  runTask: RunTask | undefined,
): TranslatedResponse {
  refuseForeignFiles(scope, request.objectIds);
  // The check of the responses request does not see what is inside returned reasoning.
  if (request.usesLongCacheTtl) throw longPromptCacheTtl();
  const identityFor = (model: string): AnswerIdentity => ({
    ...identityOf(scope, model),
    id: scope.requestId.replace("req_", "resp_"),
    unknownFields: "forward",
  });
  const { textBytes, nonTextParts } = request.promptSize;
  const source = { endpoint: "responses", request, object, runTask } as const;
  return {
    chat: new ChatCall(source, identityFor, responsesForms(settings)),
    prompt: {
      bodyBytes: object.bytes.length,
      messageCount: request.messageCount,
      unbounded: request.needsWholeContext,
      ...noExtras,
    },
    promptEstimate: estimateTokens(textBytes, nonTextParts),
  };
}

/** A separate function, because a stream retains its form (memory rules: docs/contribute/architecture.md). */
function responsesForms(settings: ResponsesSettings): (identity: AnswerIdentity) => ResponsesForm {
  return (identity) => new ResponsesForm(identity, settings);
}
