import { inputTokensMax } from "../../billing/cost.ts";
import { estimateTokens } from "../../billing/estimate.ts";
import { embeddingsAnswer, type EmbeddingsRequest } from "../../contract/embeddings.ts";
import { invalidRequest } from "../../contract/errors.ts";
import { assert } from "../../lib/assert.ts";
import type { JsonObjectText } from "../../lib/json.ts";
import {
  UnsupportedRequestError,
  type EmbeddingsInterface,
  type EncodedRequest,
} from "../../providers/provider.ts";
import type { Candidate } from "../../routing/candidates.ts";
import { admit, type Admission } from "../admission/admit.ts";
import { callerFault, type AdmittedRequest } from "../admittedRequest.ts";
import type { Answer } from "../answer.ts";
import { answerJson, type ReadAnswer } from "../answerJson.ts";
import { billedUsage } from "../billedUsage.ts";
import { findModel } from "../catalog.ts";
import type { CheckedBody, Gateway, RequestContext } from "../gateway.ts";

/**
 * The path of an embeddings request. It is that of a chat in JSON, but only the inputs have a price. Throws ApiError; the
 * hold is released by then.
 */
export async function embeddings(
  gateway: Gateway,
  context: RequestContext,
  { request, object }: CheckedBody<EmbeddingsRequest>,
): Promise<Answer> {
  const model = findModel(
    context.snapshot.catalog,
    context.caller.models,
    request.model,
    "embedding",
  );
  const candidates = model.embeddingsCandidates;
  refuseUnsupported(candidates, request);
  const { inputSizes } = request;
  const admission = await admit(gateway, context, [model], {
    endpoint: "embeddings",
    stream: false,
    prompt: { tokensMax: inputTokensMax(inputSizes, model.config) },
    promptEstimate: promptEstimateOf(request),
    promptTokensMin: 0,
    attachmentTokens: 0,
    outputTokensBound: undefined,
    choiceCount: 1,
  });
  const admittedRequest: AdmittedRequest = {
    gateway,
    context,
    admission,
    candidates,
    encode: (candidate) => encodeEmbeddings(request, object, candidate),
    callerFault,
    // There are no streams of vectors.
    streamFailure: () => "",
  };
  return answerJson(admittedRequest, {
    read: (received, candidate) => read(received, request, candidate, admission),
    usageMember: (candidate) => interfaceOf(candidate).usage,
  });
}

/** Encodes a request for a route. Throws UnsupportedRequestError. */
export function encodeEmbeddings(
  request: EmbeddingsRequest,
  object: JsonObjectText,
  candidate: Candidate,
): EncodedRequest {
  return interfaceOf(candidate).encode({ request, object, model: candidate.route.model });
}

/** The interface of a route of an embedding model. The check of the config refuses providers without one. */
export function interfaceOf({ provider }: Candidate): EmbeddingsInterface {
  const { embeddings } = provider.adapter;
  assert(embeddings !== undefined, "an embedding model on a provider without embeddings");
  return embeddings;
}

/** Throws ApiError 400 if no candidate can express the request. */
function refuseUnsupported(candidates: readonly Candidate[], request: EmbeddingsRequest): void {
  let first: UnsupportedRequestError | undefined;
  for (const candidate of candidates) {
    try {
      interfaceOf(candidate).refuseUnsupported(request);
      return;
    } catch (error) {
      if (!(error instanceof UnsupportedRequestError)) throw error;
      first ??= error;
    }
  }
  if (first) throw invalidRequest(first.message);
}

/** Tokens are counted as given. */
function promptEstimateOf({ texts, inputSizes }: EmbeddingsRequest): number {
  let estimate = 0;
  for (const size of inputSizes) estimate += texts === undefined ? size : estimateTokens(size);
  return estimate;
}

function read(
  received: Uint8Array,
  request: EmbeddingsRequest,
  candidate: Candidate,
  admission: Admission,
): ReadAnswer {
  const { usage, vectors } = interfaceOf(candidate).read(received, request);
  const billed = billedUsage(admission, { usage, isUsageFinal: true, textBytes: 0 });
  const body =
    vectors === undefined
      ? received
      : JSON.stringify(embeddingsAnswer(request.model, vectors, billed.tokens.promptTokens));
  return { body, billed, objects: [], historyTokens: 0 };
}
