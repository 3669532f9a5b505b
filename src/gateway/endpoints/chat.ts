import { promptTokensMin } from "../../billing/cost.ts";
import { estimateTokens } from "../../billing/estimate.ts";
import type { ChatRequest } from "../../contract/chat/chatRequest.ts";
import { resourceNotFound, type ApiError } from "../../contract/errors.ts";
import { longPromptCacheTtl } from "../../contract/requestFields.ts";
import type { Candidate } from "../../routing/candidates.ts";
import { admit, type AdmissionRequest } from "../admission/admit.ts";
import { callerFault, type AdmittedRequest } from "../admittedRequest.ts";
import type { Answer } from "../answer.ts";
import { answerJson } from "../answerJson.ts";
import { chatCandidatesOf, findModels, withoutRefusing, type CatalogModel } from "../catalog.ts";
import { ChatForm } from "../decoding/chatForm.ts";
import type { AnswerIdentity } from "../decoding/publicAnswer.ts";
import type { CheckedBody, Gateway, RequestContext } from "../gateway.ts";
import { ProviderChat } from "./providerChat.ts";
import { openStream } from "../streaming/openStream.ts";

/**
 * The path of a chat request: find the model, check that a route can express the request, hold the money, let the routes
 * answer, charge, and only then send the end of the answer. Throws ApiError; the hold is released by then.
 */
export async function chat(
  gateway: Gateway,
  context: RequestContext,
  body: CheckedBody<ChatRequest>,
): Promise<Answer> {
  const { request } = body;
  const named = findModels(context.snapshot.catalog, context.caller.models, request.model);
  const models = withoutRefusing(named, (model) => unpricedIn(request, model));
  refuseStoredFiles(context, request);
  const { outputTokensBound, includeUsage } = request;
  const candidates = chatCandidatesOf(models);
  const identityFor = (model: string): AnswerIdentity => identityOf(gateway, context, model);
  const forms = chatForms(includeUsage);
  const providerChat = new ProviderChat(request, body.object, identityFor, forms, "chat");
  providerChat.refuseUnsupported(candidates, outputTokensBound);
  const admission = await admit(gateway, context, models, {
    endpoint: "chat",
    stream: request.stream,
    prompt: {
      bodyBytes: body.bodyBytes + providerChat.addedPromptBytes(candidates),
      messageCount: request.messageCount,
      unbounded: request.needsWholeContext,
      longCacheWrites: request.usesLongCacheTtl,
      webSearchesMax: request.webSearchesMax,
    },
    ...promptFiguresOf(request, candidates),
    attachmentTokens: request.promptSize.attachmentTokens,
    outputTokensBound,
    choiceCount: request.choiceCount,
  });
  const admittedRequest: AdmittedRequest = {
    gateway,
    context,
    admission,
    candidates,
    encode: (candidate) => providerChat.encode(candidate, admission),
    callerFault,
    streamFailure: (error) => forms(identityFor(request.model)).failure(error.toBody().error),
  };
  if (request.stream) return openStream(admittedRequest, (route) => providerChat.decoder(route));
  return answerJson(admittedRequest, {
    read: (received, candidate) => providerChat.read(received, candidate, admission),
    usageMember: (candidate) => providerChat.interfaceFor(candidate).usage,
  });
}

/** A separate function, because a stream retains its form (memory rules: docs/architecture.md). */
function chatForms(includeUsage: boolean): (identity: AnswerIdentity) => ChatForm {
  return (identity) => new ChatForm(identity, includeUsage);
}

/** The figures of the prompt, without fields that every route drops (`drop_message_fields`). */
function promptFiguresOf(
  request: ChatRequest,
  candidates: readonly Candidate[],
): Pick<AdmissionRequest, "promptEstimate" | "promptTokensMin"> {
  let { textBytes, nonTextParts } = request.promptSize;
  for (const [name, size] of request.fieldSizes) {
    const isDropped = candidates.every(({ provider }) =>
      provider.config.dropMessageFields.includes(name),
    );
    if (!isDropped) continue;
    textBytes -= size.textBytes;
    nonTextParts -= size.nonTextParts;
  }
  const promptEstimate = estimateTokens(textBytes, nonTextParts);
  return { promptEstimate, promptTokensMin: promptTokensMin(textBytes) };
}

/** A separate function, because a stream retains `unknownFinishReason` (memory rules: docs/architecture.md). */
export function identityOf(
  gateway: Gateway,
  context: RequestContext,
  model: string,
): AnswerIdentity {
  return {
    id: context.requestId.replace("req_", "chatcmpl-"),
    model,
    created: Math.floor(gateway.clock.epochMs() / 1000),
    unknownFields: context.snapshot.config.api.unknownFields,
    usageChunk: context.snapshot.config.api.usageChunk,
    unknownFinishReason: () => gateway.metrics.unknownFinishReason(model),
  };
}

/**
 * The 400 of a cache write for an hour, unless the model sells it and every route reports how many tokens are kept for how
 * long.
 */
function unpricedIn(
  request: ChatRequest,
  { config, chatCandidates }: CatalogModel,
): ApiError | undefined {
  if (!request.usesLongCacheTtl) return undefined;
  const areReported = chatCandidates.every(({ provider }) => provider.config.kind === "anthropic");
  return config.sells.longCacheWrites && areReported ? undefined : longPromptCacheTtl();
}

/** Refuses files of the provider in a chat's prompt, unless shared: their owner is not known. Throws ApiError 404. */
function refuseStoredFiles({ snapshot }: RequestContext, request: ChatRequest): void {
  const { sharedObjects } = snapshot.config.api;
  if (request.objectIds.some((id) => !sharedObjects.includes(id))) throw resourceNotFound();
}
