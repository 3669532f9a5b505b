import { estimateTokens } from "../billing/estimate.ts";
import type { ChatRequest } from "../contract/chat/chatRequest.ts";
import type { ChatCompletion } from "../contract/chat/chatAnswer.ts";
import { invalidRequest, resourceNotFound } from "../contract/errors.ts";
import {
  answerText,
  UnsupportedRequestError,
  type ChatCall,
  type EncodedRequest,
} from "../providers/provider.ts";
import type { Candidate } from "../routing/candidates.ts";
import { admit } from "./admission/admit.ts";
import { answerJson } from "./answerJson.ts";
import { findModel } from "./catalog.ts";
import { publicCompletion, publicUsage, type AnswerIdentity } from "./decoding/publicAnswer.ts";
import { ChatDecoder, chatFailure } from "./decoding/chatDecoder.ts";
import type { Answer } from "./answer.ts";
import { billedUsage } from "./billedUsage.ts";
import type { CheckedBody, Gateway, RequestContext } from "./gateway.ts";
import type { AdmittedRequest } from "./admittedRequest.ts";
import { openStream } from "./streaming/openStream.ts";
import type { JsonObjectText } from "../lib/json.ts";

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
  const model = findModel(context.snapshot.catalog, context.caller.models, request.model);
  refuseStoredFiles(context, request);
  const { outputTokensBound } = request;
  const encoder = new ChatEncoder(request, body.object);
  encoder.refuseUnsupported(model.chatCandidates, {
    outputTokensBound,
    outputTokensMax: outputTokensBound ?? model.config.maxOutputTokens,
  });
  const admission = await admit(gateway, context, model, {
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
  const identity = identityOf(gateway, context, request.model);
  const admittedRequest: AdmittedRequest = {
    gateway,
    context,
    admission,
    candidates: model.chatCandidates,
    encode: (candidate) => encoder.encode(candidate, admission),
    callerFault: ({ clientError }) =>
      clientError && invalidRequest(clientError.message, clientError.extra),
    streamFailure: (error) => chatFailure(identity, error.toBody().error),
  };
  return request.stream
    ? streamAnswer(admittedRequest, request, identity)
    : jsonAnswer(admittedRequest, request, identity);
}

/** The estimate of the prompt, without fields that every route drops (`drop_message_fields`). */
function promptEstimateOf(request: ChatRequest, candidates: readonly Candidate[]): number {
  let { textBytes, nonTextParts } = request.promptSize;
  for (const [name, size] of request.fieldSizes) {
    const isDropped = candidates.every(({ provider }) =>
      provider.config.dropMessageFields.includes(name),
    );
    if (!isDropped) continue;
    textBytes -= size.textBytes;
    nonTextParts -= size.nonTextParts;
  }
  return estimateTokens(textBytes, nonTextParts);
}

/** A separate function, because a stream retains `unknownFinishReason` (memory rules: docs/architecture.md). */
function identityOf(gateway: Gateway, context: RequestContext, model: string): AnswerIdentity {
  return {
    id: context.requestId.replace("req_", "chatcmpl-"),
    model,
    created: Math.floor(gateway.clock.epochMs() / 1000),
    unknownFields: context.snapshot.config.api.unknownFields,
    usageChunk: context.snapshot.config.api.usageChunk,
    unknownFinishReason: () => gateway.metrics.unknownFinishReason(model),
  };
}

function streamAnswer(
  admittedRequest: AdmittedRequest,
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
      stop: stopsToEnforce(request, candidate),
      eventsStandAlone: candidate.chat.eventsStandAlone,
    });
  return openStream(admittedRequest, decoderFor);
}

function jsonAnswer(
  admittedRequest: AdmittedRequest,
  request: ChatRequest,
  identity: AnswerIdentity,
): Promise<Answer> {
  return answerJson(admittedRequest, {
    read(text, candidate) {
      const { completion, usage, isUsageEarly = false } = candidate.chat.read(text);
      const shown = publicCompletion(completion, identity, stopsToEnforce(request, candidate));
      const billed = billedUsage(admittedRequest.admission, {
        usage,
        isUsageFinal: !isUsageEarly,
        get textBytes() {
          return shown.textBytes;
        },
      });
      const answer: ChatCompletion = {
        ...shown.completion,
        usage: publicUsage(billed.tokens, completion["usage"], identity),
      };
      return { text: answerText(answer), billed, objects: [], historyTokens: 0 };
    },
    usageMember: ({ chat }) => chat.usage,
  });
}

/** The stop sequences that the provider's interface does not have. The gateway ends the answer at them. */
function stopsToEnforce({ stop }: ChatRequest, candidate: Candidate): readonly string[] {
  return candidate.chat.supportsStop ? [] : stop;
}

/** Refuses files of the provider in a chat's prompt, unless shared: their owner is not known. Throws ApiError 404. */
function refuseStoredFiles({ snapshot }: RequestContext, request: ChatRequest): void {
  const { sharedObjects } = snapshot.config.api;
  if (request.objectIds.some((id) => !sharedObjects.includes(id))) throw resourceNotFound();
}

/** The token bounds of each choice. */
type Bounds = Pick<ChatCall, "outputTokensBound" | "outputTokensMax">;

interface EncodedChat {
  readonly candidate: Candidate;
  readonly outputTokensMax: number;
  readonly encoded: EncodedRequest;
}

/**
 * Encodes one chat for its routes. The check before the hold encodes it once. That result is sent if the same route and
 * bound are used, so no chat is encoded twice without need.
 */
class ChatEncoder {
  readonly #request: ChatRequest;
  readonly #object: JsonObjectText;
  /** May be as large as the body, so `encode` clears it. */
  #encoded: EncodedChat | undefined;

  constructor(request: ChatRequest, object: JsonObjectText) {
    this.#request = request;
    this.#object = object;
  }

  /** Throws ApiError 400 if no candidate can express the request. */
  refuseUnsupported(candidates: readonly Candidate[], bounds: Bounds): void {
    if (candidates.some(({ chat }) => chat.supportsEverything)) return;
    let first: UnsupportedRequestError | undefined;
    for (const candidate of candidates) {
      try {
        const encoded = this.#encodeFor(candidate, bounds);
        this.#encoded = { candidate, outputTokensMax: bounds.outputTokensMax, encoded };
        return;
      } catch (error) {
        if (!(error instanceof UnsupportedRequestError)) throw error;
        first ??= error;
      }
    }
    if (first) throw invalidRequest(first.message);
  }

  /** Throws UnsupportedRequestError. */
  encode(candidate: Candidate, bounds: Bounds): EncodedRequest {
    const last = this.#encoded;
    this.#encoded = undefined;
    const isSame = last?.candidate === candidate && last.outputTokensMax === bounds.outputTokensMax;
    return isSame ? last.encoded : this.#encodeFor(candidate, bounds);
  }

  #encodeFor(candidate: Candidate, { outputTokensBound, outputTokensMax }: Bounds): EncodedRequest {
    const { provider, route, chat } = candidate;
    return chat.encode({
      request: this.#request,
      object: this.#object,
      model: route.model,
      outputTokensBound,
      outputTokensMax,
      options: provider.config,
    });
  }
}
