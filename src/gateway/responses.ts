import { estimateTokens } from "../billing/estimate.ts";
import { invalidRequest, resourceNotFound, type ApiError } from "../contract/errors.ts";
import type { ResponsesRequest } from "../contract/responses.ts";
import { readResponsesUsage } from "../contract/usage.ts";
import { isJsonObject, type JsonObjectText } from "../lib/json.ts";
import { formatRoubles } from "../lib/money.ts";
import { AnswerError, type EncodedRequest } from "../providers/provider.ts";
import type { UpstreamError } from "../providers/upstream.ts";
import type { Candidate } from "../routing/order.ts";
import { admit, findModel } from "./admit.ts";
import { conclude } from "./conclude.ts";
import type { Answer } from "./answer.ts";
import type { Gateway, Visit } from "./gateway.ts";
import { collectAnswer, openStream, type Journey } from "./journey.ts";
import { ownObjects, pinToOwner } from "./ownership.ts";
import { estimatedUsage } from "./relay.ts";
import { objectIdsOf, ResponsesDecoder } from "./responsesDecoder.ts";

/** A checked responses request with the client's own text. */
export interface ResponsesBody {
  readonly request: ResponsesRequest;
  readonly object: JsonObjectText;
  readonly bodyBytes: number;
}

/** A response that was asked for as JSON, in its provider's own text. */
interface NativeResponse {
  readonly text: string;
  readonly response: Readonly<Record<string, unknown>>;
}

/** The provider's codes for a model that it does not have, which is no fault of the caller's. */
const UNKNOWN_MODEL = /model/i;

/**
 * The path of a responses request: the client's text goes to the provider with nothing but `model`
 * changed, and the provider's bytes come back. Throws ApiError; by then nothing is held any more.
 */
export async function responses(
  gateway: Gateway,
  visit: Visit,
  body: ResponsesBody,
): Promise<Answer> {
  const { request, object } = body;
  const model = findModel(gateway, visit, request.model);
  if (model.responses.length === 0) {
    throw invalidRequest("model does not support the responses interface");
  }
  const candidates = pinToOwner(gateway, visit, request, model.responses);
  const admitted = admit(gateway, visit, model, {
    endpoint: "responses",
    stream: request.stream,
    prompt: { bodyBytes: body.bodyBytes, messageCount: 0, unbounded: request.needsWholeContext },
    promptEstimate: estimateTokens(request.promptSize.textBytes, request.promptSize.otherParts),
    outputTokensBound: request.outputTokensBound,
    choiceCount: request.choiceCount,
  });
  const journey: Journey = {
    gateway,
    visit,
    admitted,
    candidates,
    encode: (candidate) => encode(object, candidate),
    callerFault,
    own: (objectIds, provider) => ownObjects(gateway, visit, objectIds, provider),
  };
  if (request.stream) {
    return { kind: "stream", relay: await openStream(journey, () => new ResponsesDecoder()) };
  }
  return jsonAnswer(journey);
}

async function jsonAnswer(journey: Journey): Promise<Answer> {
  const { visit, admitted } = journey;
  const { read, candidate, isGone } = await collectAnswer(journey, readResponse);
  const { text, response } = read;
  const usage = readResponsesUsage(response["usage"]);
  const billed = usage
    ? { tokens: usage, estimated: false }
    : estimatedUsage(admitted, Buffer.byteLength(JSON.stringify(response["output"] ?? "")));
  const isRefused = response["status"] === "failed";
  const [receipt] = await Promise.all([
    conclude(visit, admitted, {
      status: isGone ? "cancelled" : isRefused ? "failed" : "done",
      usage: isRefused ? undefined : billed,
      provider: candidate.provider.id,
      operatorPrice: candidate.route.cost,
    }),
    journey.own(objectIdsOf(response), candidate.provider.id),
  ]);
  return { kind: "json", text, costRub: formatRoubles(receipt.charge) };
}

function readResponse(text: string): NativeResponse {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    throw new AnswerError("the answer is not JSON");
  }
  if (!isJsonObject(value) || value["object"] !== "response") {
    throw new AnswerError("the answer is not a response");
  }
  return { text, response: value };
}

function encode(object: JsonObjectText, { provider, route }: Candidate): EncodedRequest {
  const { responses } = provider.adapter;
  if (!responses) throw new Error(`provider ${provider.id} has no responses interface`);
  return responses.encode(object, route.model);
}

/** A resource that the provider does not know was named by the caller; a model was named by the config. */
function callerFault(error: UpstreamError): ApiError | undefined {
  if (error.shown) return invalidRequest(error.shown.message, error.shown.extra);
  const isMissing = error.fault === "missing" && !UNKNOWN_MODEL.test(error.providerCode ?? "");
  return isMissing ? resourceNotFound() : undefined;
}
