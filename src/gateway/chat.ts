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
 * The path of a chat request: find the model, see that one of its routes has words for it, hold the money, let the
 * routes answer, charge, and only then give out the end of the answer. Throws ApiError; by then nothing is held any more.
 */
export async function chat(
  gateway: Gateway,
  context: RequestContext,
  body: CheckedBody<ChatRequest>,
): Promise<Answer> {
  const { request } = body;
  const model = findModel(context.snapshot.catalog, context.caller.models, request.model);
  refuseForeignObjects(context, request);
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
    callerFault: ({ shown }) => shown && invalidRequest(shown.message, shown.extra),
    streamFailure: (error) => chatFailure(identity, error.toBody().error),
  };
  return request.stream
    ? streamAnswer(admittedRequest, request, identity)
    : jsonAnswer(admittedRequest, request, identity);
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
      stop: stopsLeft(request, candidate),
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
      const shown = publicCompletion(completion, identity, stopsLeft(request, candidate));
      const { textBytes } = shown;
      const figures = { usage, isUsageFinal: !isUsageEarly, textBytes };
      const billed = billedUsage(admittedRequest.admission, figures);
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
function refuseForeignObjects({ snapshot }: RequestContext, request: ChatRequest): void {
  const { sharedObjects } = snapshot.config.api;
  if (request.objectIds.some((id) => !sharedObjects.includes(id))) throw resourceNotFound();
}

/** The bounds of each choice's tokens. */
type Bounds = Pick<ChatCall, "outputTokensBound" | "outputTokensMax">;

interface Written {
  readonly candidate: Candidate;
  readonly outputTokensMax: number;
  readonly encoded: EncodedRequest;
}

/**
 * One chat in the words of its model's routes. Whether any of them has words for it is asked before money is held, and
 * what that wrote is sent: no chat is written twice for it, unless money shrinks its bound or another route is drawn.
 */
class ChatEncoder {
  readonly #request: ChatRequest;
  readonly #object: JsonObjectText;
  /** It may be as large as the body: whoever sends it takes it away. */
  #written: Written | undefined;

  constructor(request: ChatRequest, object: JsonObjectText) {
    this.#request = request;
    this.#object = object;
  }

  /** Throws ApiError 400 where no candidate has words for it, whoever else could answer now. */
  refuseUnsupported(candidates: readonly Candidate[], bounds: Bounds): void {
    if (candidates.some(({ chat }) => chat.takesAll)) return;
    let first: UnsupportedRequestError | undefined;
    for (const candidate of candidates) {
      try {
        const encoded = this.#write(candidate, bounds);
        this.#written = { candidate, outputTokensMax: bounds.outputTokensMax, encoded };
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
    const written = this.#written;
    this.#written = undefined;
    const isSame =
      written?.candidate === candidate && written.outputTokensMax === bounds.outputTokensMax;
    return isSame ? written.encoded : this.#write(candidate, bounds);
  }

  #write(candidate: Candidate, { outputTokensBound, outputTokensMax }: Bounds): EncodedRequest {
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
