import { estimateTokens } from "../billing/estimate.ts";
import type { ChatRequest } from "../contract/chat.ts";
import type { ChatCompletion } from "../contract/chatAnswer.ts";
import { invalidRequest, resourceNotFound } from "../contract/errors.ts";
import { answerText } from "../providers/provider.ts";
import type { Candidate } from "../routing/order.ts";
import { admit } from "./admit.ts";
import { answerJson } from "./answerJson.ts";
import { findModel } from "./catalog.ts";
import { publicCompletion, publicUsage, type AnswerIdentity } from "./decoding/publicAnswer.ts";
import { ChatDecoder, chatFailure } from "./decoding/chatDecoder.ts";
import { ChatEncoder } from "./chatEncoder.ts";
import type { Answer } from "./answer.ts";
import { billedUsage } from "./billedUsage.ts";
import type { CheckedBody, Gateway, Visit } from "./gateway.ts";
import type { Journey } from "./journey.ts";
import { openStream } from "./openStream.ts";

/**
 * The path of a chat request: find the model, see that one of its routes has words for it, hold the money, let the
 * routes answer, charge, and only then give out the end of the answer. Throws ApiError; by then nothing is held any more.
 */
export async function chat(
  gateway: Gateway,
  visit: Visit,
  body: CheckedBody<ChatRequest>,
): Promise<Answer> {
  const { request } = body;
  const model = findModel(visit.setup.catalog, visit.caller.models, request.model);
  refuseForeignObjects(visit, request);
  const { outputTokensBound } = request;
  const encoder = new ChatEncoder(request, body.object);
  encoder.refuseUnfit(model.chatCandidates, {
    outputTokensBound,
    outputTokensMax: outputTokensBound ?? model.config.maxOutputTokens,
  });
  const admitted = await admit(gateway, visit, model, {
    endpoint: "chat",
    stream: request.stream,
    prompt: {
      bodyBytes: body.bodyBytes,
      messageCount: request.messageCount,
      unbounded: request.needsWholeContext,
    },
    promptEstimate: promptEstimateOf(request, model.chatCandidates),
    outputTokensBound,
    choiceCount: request.choiceCount,
  });
  const identity = identityOf(gateway, visit, request.model);
  const journey: Journey = {
    gateway,
    visit,
    admitted,
    candidates: model.chatCandidates,
    encode: (candidate) => encoder.encode(candidate, admitted),
    callerFault: ({ shown }) => shown && invalidRequest(shown.message, shown.extra),
    failurePiece: (error) => chatFailure(identity, error.toBody().error),
  };
  return request.stream
    ? streamAnswer(journey, request, identity)
    : jsonAnswer(journey, request, identity);
}

/** What is sent over no route is read by no model. */
function promptEstimateOf(request: ChatRequest, candidates: readonly Candidate[]): number {
  let { textBytes, otherParts } = request.promptSize;
  for (const [name, size] of request.sizesBesideContent) {
    const isDropped = candidates.every(({ provider }) =>
      provider.config.dropMessageFields.includes(name),
    );
    if (!isDropped) continue;
    textBytes -= size.textBytes;
    otherParts -= size.otherParts;
  }
  return estimateTokens(textBytes, otherParts);
}

/** A function of its own, for `unknownFinishReason` lives as long as a stream (of closures: gateway.ts). */
function identityOf(gateway: Gateway, visit: Visit, model: string): AnswerIdentity {
  return {
    id: visit.requestId.replace("req_", "chatcmpl-"),
    model,
    created: Math.floor(gateway.clock.epochMs() / 1000),
    unknownFields: visit.setup.config.api.unknownFields,
    usageChunk: visit.setup.config.api.usageChunk,
    unknownFinishReason: () => gateway.metrics.unknownFinishReason(model),
  };
}

function streamAnswer(
  journey: Journey,
  request: ChatRequest,
  identity: AnswerIdentity,
): Promise<Answer> {
  const { choiceCount, includeUsage } = request;
  const decoderFor = (candidate: Candidate): ChatDecoder =>
    new ChatDecoder({
      readEvent: candidate.chat.events(),
      identity,
      choiceCount,
      includeUsage,
      stop: stopsLeft(request, candidate),
      eventsStandAlone: candidate.chat.eventsStandAlone,
    });
  return openStream(journey, decoderFor);
}

function jsonAnswer(
  journey: Journey,
  request: ChatRequest,
  identity: AnswerIdentity,
): Promise<Answer> {
  return answerJson(journey, {
    read(text, candidate) {
      const { completion, usage, isUsageEarly = false } = candidate.chat.read(text);
      const shown = publicCompletion(completion, identity, stopsLeft(request, candidate));
      const { textBytes } = shown;
      const figures = { usage, isUsageFinal: !isUsageEarly, textBytes };
      const billed = billedUsage(journey.admitted, figures);
      const answer: ChatCompletion = {
        ...shown.completion,
        usage: publicUsage(billed.tokens, completion["usage"], identity),
      };
      return { text: answerText(answer), billed, objects: [], historyTokens: 0 };
    },
    usageMember: ({ chat }) => chat.usage,
  });
}

/** The stop sequences that the provider's interface cannot be told: the gateway ends the answer at them. */
function stopsLeft({ stop }: ChatRequest, candidate: Candidate): readonly string[] {
  return candidate.chat.takesStop ? [] : stop;
}

/** A chat's prompt may name the provider's files too; those are not told apart by account. */
function refuseForeignObjects({ setup }: Visit, request: ChatRequest): void {
  const { sharedObjects } = setup.config.api;
  if (request.objectIds.some((id) => !sharedObjects.includes(id))) throw resourceNotFound();
}
