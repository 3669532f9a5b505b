import { estimateTokens } from "../billing/estimate.ts";
import { invalidRequest, resourceNotFound, type ApiError } from "../contract/errors.ts";
import { providerCallsOf, type ResponsesRequest } from "../contract/responses.ts";
import { readResponsesUsage } from "../contract/usage.ts";
import { isJsonObject, type JsonFields, type JsonObjectText } from "../lib/json.ts";
import {
  AnswerError,
  decodeAnswer,
  parseAnswerJson,
  type EncodedRequest,
} from "../providers/provider.ts";
import { reportedFailureIn, type UpstreamError } from "../providers/upstream.ts";
import type { Candidate } from "../routing/candidates.ts";
import { admit } from "./admission/admit.ts";
import { answerJson } from "./answerJson.ts";
import type { Answer } from "./answer.ts";
import { findModel, type CatalogModel } from "./catalog.ts";
import { billedUsage, historyTokensOf } from "./billedUsage.ts";
import type { CheckedBody, Gateway, RequestContext } from "./gateway.ts";
import type { AdmittedRequest } from "./admittedRequest.ts";
import { openStream } from "./streaming/openStream.ts";
import { pinToProvider } from "./admission/objectOwnership.ts";
import { objectsOf, ResponsesDecoder, responsesFailure } from "./decoding/responsesDecoder.ts";
import { outputBytes } from "./decoding/generatedContent.ts";

/**
 * The path of a responses request. The client's text is sent with only `model` changed, and the provider's bytes are
 * returned. Throws ApiError; the hold is released by then.
 */
export async function responses(
  gateway: Gateway,
  context: RequestContext,
  body: CheckedBody<ResponsesRequest>,
): Promise<Answer> {
  const { request, object } = body;
  const model = findModel(context.snapshot.catalog, context.caller.models, request.model, "chat");
  if (model.responsesCandidates.length === 0) {
    throw invalidRequest("model does not support the responses interface");
  }
  const { candidates, storedTokens } = pinToProvider(
    gateway,
    context,
    request,
    model.responsesCandidates,
  );
  const admission = await admit(gateway, context, model, {
    endpoint: "responses",
    stream: request.stream,
    prompt: { bodyBytes: body.bodyBytes, messageCount: 0, unbounded: request.needsWholeContext },
    promptEstimate: promptEstimateOf(request, storedTokens, model),
    outputTokensBound: request.outputTokensBound,
    choiceCount: request.choiceCount,
  });
  const admittedRequest: AdmittedRequest = {
    gateway,
    context,
    admission,
    candidates,
    encode: (candidate) => encodeResponses(object, candidate),
    callerFault,
    streamFailure: (error) => responsesFailure(0, error.toBody().error),
  };
  return request.stream
    ? openStream(admittedRequest, () => new ResponsesDecoder())
    : jsonAnswer(admittedRequest);
}

/** The estimate includes the stored conversation, at most `context_tokens`: a provider truncates what is longer. */
function promptEstimateOf(
  { promptSize }: ResponsesRequest,
  storedTokens: number,
  { config }: CatalogModel,
): number {
  const ownTokens = estimateTokens(promptSize.textBytes, promptSize.nonTextParts);
  return storedTokens === 0 ? ownTokens : Math.min(storedTokens + ownTokens, config.contextTokens);
}

function jsonAnswer(admittedRequest: AdmittedRequest): Promise<Answer> {
  return answerJson(admittedRequest, {
    read(received) {
      const response = parseResponse(decodeAnswer(received));
      const reportsFailure = response["status"] === "failed";
      const read = {
        usage: readResponsesUsage(response["usage"]),
        isUsageFinal: true,
        providerCalls: providerCallsOf(response["output"]),
        textBytes: outputBytes(response["output"]),
      };
      const billed = reportsFailure ? undefined : billedUsage(admittedRequest.admission, read);
      const historyTokens = historyTokensOf(admittedRequest.admission, read);
      return { body: received, billed, objects: objectsOf(response), historyTokens };
    },
    usageMember: ({ provider }) => provider.adapter.responses?.usage,
  });
}

/** Parses a JSON answer into a response object. Throws AnswerError, or ReportedFailure for an error object. */
export function parseResponse(text: string): JsonFields {
  const value = parseAnswerJson(text);
  if (isJsonObject(value) && value["object"] === "response") return value;
  throw reportedFailureIn(value) ?? new AnswerError("the answer is not a response");
}

/** Encodes the client's text for a route that serves the responses interface. */
export function encodeResponses(
  object: JsonObjectText,
  { provider, route }: Candidate,
): EncodedRequest {
  const { responses } = provider.adapter;
  if (!responses) throw new Error(`provider ${provider.id} has no responses interface`);
  return responses.encode({ object, model: route.model, headers: {} });
}

/** An unknown resource is the caller's fault, because the caller named it. An unknown model was named by the config. */
function callerFault(error: UpstreamError): ApiError | undefined {
  if (error.clientError) return invalidRequest(error.clientError.message, error.clientError.extra);
  const isCallers = error.fault === "notFound" && !error.isUnknownModel;
  return isCallers ? resourceNotFound() : undefined;
}
