import { inputTokensMax } from "../../billing/cost.ts";
import { estimateTokens } from "../../billing/estimate.ts";
import {
  checkEmbeddingsRequest,
  embeddingsAnswer,
  type EmbeddingsRequest,
} from "../../contract/embeddings.ts";
import { invalidRequest } from "../../contract/errors.ts";
import { parseJsonObject, type CheckedBody } from "../../contract/jsonBody.ts";
import { sessionIdOf } from "../../contract/session.ts";
import { assert } from "../../lib/assert.ts";
import type { JsonObjectText } from "../../lib/json.ts";
import {
  UnsupportedRequestError,
  type EmbeddingsInterface,
  type EncodedRequest,
  type UsageMember,
} from "../../providers/provider.ts";
import type { Candidate } from "../../routing/candidates.ts";
import { sessionOf } from "../admission/session.ts";
import { admit } from "../admission/admit.ts";
import type { Answer } from "../answer.ts";
import { answerJson } from "../answerJson.ts";
import { billedUsage } from "../billedUsage.ts";
import { findModel } from "../catalog.ts";
import type { ProviderCall, ReadAnswer } from "../providerCall.ts";
import { checkInWorker, isLarge, taskRunner } from "../largeBodies/checkBody.ts";
import type { RunTask } from "../largeBodies/largeBodies.ts";
import { serviceOf } from "../interfaces.ts";
import { withChecked, type AdmittedScope, type RequestScope } from "../requestScope.ts";

/**
 * The path of an embeddings request. It is that of a chat in JSON, but only the inputs have a price. Throws ApiError; the
 * hold is released by then.
 */
export async function embeddings(scope: RequestScope, body: Uint8Array): Promise<Answer> {
  const { request, object } = await (isLarge(body) ? checkLarge : checkHere)(scope, body);
  scope.addLogFields({ endpoint: "embeddings", model: request.model, stream: false });
  const { catalog } = scope.snapshot;
  const model = findModel(catalog, scope.caller.models, request.model, "embedding");
  const candidates = model.embeddingsCandidates;
  refuseUnsupported(candidates, request);
  const checked = withChecked(scope, {
    endpoint: "embeddings",
    stream: false,
    serviceTier: "standard",
    models: [model],
    candidates,
    session: sessionOf(scope, candidates, () => sessionIdOf(request.fields)),
    prompt: { tokensMax: inputTokensMax(request.inputSizes, model.config) },
    promptEstimate: promptEstimateOf(request),
    promptTokensMin: 0,
    attachmentTokens: 0,
    outputTokensBound: undefined,
    choiceCount: 1,
  });
  return answerJson(
    await admit(checked),
    new EmbeddingsCall(request, object, taskRunner(scope, object)),
  );
}

function checkHere({ snapshot }: RequestScope, body: Uint8Array): CheckedBody<EmbeddingsRequest> {
  const { value, object } = parseJsonObject(body);
  return { request: checkEmbeddingsRequest(value, snapshot.config.api), object };
}

/** The Worker keeps the texts. */
async function checkLarge(
  scope: RequestScope,
  body: Uint8Array,
): Promise<CheckedBody<EmbeddingsRequest>> {
  const { request, object } = await checkInWorker(scope, body, "checkEmbeddings");
  return { request: { ...request, texts: [] }, object };
}

class EmbeddingsCall implements ProviderCall {
  readonly #request: EmbeddingsRequest;
  readonly #object: JsonObjectText;
  readonly #runTask: RunTask | undefined;

  constructor(request: EmbeddingsRequest, object: JsonObjectText, runTask: RunTask | undefined) {
    this.#request = request;
    this.#object = object;
    this.#runTask = runTask;
  }

  encode(_: AdmittedScope, candidate: Candidate): EncodedRequest | Promise<EncodedRequest> {
    const isNative = serviceOf("embeddings", candidate) === "native";
    if (!this.#runTask || isNative) return encodeEmbeddings(this.#request, this.#object, candidate);
    const { provider, route } = candidate;
    const { kind } = provider.config;
    return this.#runTask("encodeEmbeddings", {
      request: this.#request,
      members: this.#object.members,
      kind,
      model: route.model,
    });
  }

  decoder(): never {
    throw new Error("there are no streams of vectors");
  }

  read(scope: AdmittedScope, received: Uint8Array, candidate: Candidate): ReadAnswer {
    const { usage, vectors } = interfaceOf(candidate).read(received, this.#request);
    const billed = billedUsage(scope, { usage, isUsageFinal: true, textBytes: 0 });
    const { promptTokens } = billed.tokens;
    const body =
      vectors === undefined
        ? received
        : JSON.stringify(embeddingsAnswer(this.#request.model, vectors, promptTokens));
    return { body, billed, objects: [], historyTokens: 0 };
  }

  usageMember(candidate: Candidate): UsageMember {
    return interfaceOf(candidate).usage;
  }
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
function promptEstimateOf({ areTexts, inputSizes }: EmbeddingsRequest): number {
  let estimate = 0;
  for (const size of inputSizes) estimate += areTexts ? estimateTokens(size) : size;
  return estimate;
}
