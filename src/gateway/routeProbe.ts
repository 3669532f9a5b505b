import type { ChatApi } from "../config/schema.ts";
import { checkChatRequest, ownChatRules } from "../contract/chat/chatRequest.ts";
import { checkEmbeddingsRequest } from "../contract/embeddings.ts";
import { parseJsonObject } from "../contract/jsonBody.ts";
import type { Endpoint } from "../contract/account/requestStatus.ts";
import { publicCompletion } from "./decoding/publicAnswer.ts";
import { abortExchange } from "./answer.ts";
import { encodeEmbeddings, interfaceOf } from "./endpoints/embeddings.ts";
import { encodeResponses, parseResponse } from "./endpoints/responses.ts";
import { AnswerError, decodeAnswer, type EncodedRequest } from "../providers/provider.ts";
import { UpstreamError, upstreamErrorOf, type UpstreamExchange } from "../providers/upstream.ts";
import type { Candidate } from "../routing/candidates.ts";

/** A route, and an endpoint that it serves. */
export interface Probe {
  readonly candidate: Candidate;
  readonly endpoint: Endpoint;
  /** The provider's interface that serves it. */
  readonly api: ProbedApi;
}

/** The interfaces of providers. */
export type ProbedApi = ChatApi | "embeddings";

/**
 * Bounds of the answer in tokens, tried in this order while the provider refuses the request. OpenAI's Responses
 * interface requires at least 16. Its chat interface answers 400 if a reasoning model reaches the bound during the
 * reasoning: https://platform.openai.com/docs/api-reference/responses/create
 */
const BOUNDS = [1, 16, 256];
const RESPONSES_BOUND_MIN = 16;

const QUESTION = "Say ok.";

/** The probe of a route that tells whether it answers at all. */
export function probeOf(candidate: Candidate): Probe {
  return candidate.model.kind === "chat"
    ? { candidate, endpoint: "chat", api: candidate.route.api }
    : { candidate, endpoint: "embeddings", api: "embeddings" };
}

/** Told of each exchange of a probe. */
export interface ProbeListener {
  sent(exchange: UpstreamExchange): void;
  ended(exchange: UpstreamExchange): void;
}

/**
 * Asks the route for the shortest answer, with the code that serves clients but without billing. Resolves with the
 * failure, if any. An empty answer is a success: a reasoning model spends its one token on reasoning.
 */
export async function askRoute(
  probe: Probe,
  requestId: string,
  listener?: ProbeListener,
): Promise<UpstreamError | undefined> {
  let failure: UpstreamError | undefined;
  for (const bound of boundsFor(probe)) {
    failure = await askWithBound(probe, bound, requestId, listener);
    if (failure?.fault !== "caller") break;
  }
  return failure;
}

/** An embeddings request has no bound and is sent once. */
function boundsFor({ api, candidate }: Probe): readonly number[] {
  if (api === "embeddings") return [0];
  const { maxOutputTokens } = candidate.model;
  const least = api === "responses" ? RESPONSES_BOUND_MIN : 1;
  const bounds = BOUNDS.filter((bound) => bound >= least && bound <= maxOutputTokens);
  return bounds.length > 0 ? bounds : [maxOutputTokens];
}

async function askWithBound(
  probe: Probe,
  bound: number,
  requestId: string,
  listener: ProbeListener | undefined,
): Promise<UpstreamError | undefined> {
  const { upstream, key } = probe.candidate.provider;
  await key?.ready();
  if (key?.isMissing === true) return new UpstreamError("account", "no key");
  let question: Question;
  try {
    question = questionFor(probe, bound);
  } catch (error) {
    const failure = upstreamErrorOf(error);
    if (!failure) throw error;
    return failure;
  }
  const exchange = upstream.send({ ...question.request, stream: false, requestId });
  listener?.sent(exchange);
  try {
    question.check(await exchange.answer);
    return undefined;
  } catch (error) {
    return abortExchange(exchange, error);
  } finally {
    listener?.ended(exchange);
  }
}

/** A request for a route. `check` throws AnswerError for an answer that a client would not get. */
interface Question {
  readonly request: EncodedRequest;
  check(answer: Uint8Array): void;
}

function questionFor(probe: Probe, bound: number): Question {
  switch (probe.api) {
    case "embeddings":
      return embeddingsQuestion(probe);
    case "chat":
    case "responses":
      return probe.endpoint === "chat"
        ? chatQuestion(probe, bound)
        : responsesQuestion(probe, bound);
  }
}

function embeddingsQuestion({ candidate }: Probe): Question {
  const { value, object } = parseJsonObject(
    JSON.stringify({ model: candidate.model.id, input: QUESTION }),
  );
  const request = checkEmbeddingsRequest(value, {
    unknownFields: "forward",
    refusedFields: [],
    allowedTools: [],
    maxEmbeddingInputs: 1,
  });
  return {
    request: encodeEmbeddings(request, object, candidate),
    check: (answer) => void interfaceOf(candidate).read(answer, request),
  };
}

function chatQuestion(probe: Probe, bound: number): Question {
  const { candidate } = probe;
  const messages = [{ role: "user", content: QUESTION }];
  const { value, object } = parseJsonObject(
    JSON.stringify({ model: candidate.model.id, messages, max_tokens: bound }),
  );
  const request = candidate.chat.encode({
    request: checkChatRequest(value, ownChatRules({ allowedTools: [] })),
    object,
    model: candidate.route.model,
    outputTokensBound: bound,
    outputTokensMax: bound,
    options: candidate.provider.config,
  });
  return { request, check: (answer) => checkCompletion(probe, decodeAnswer(answer)) };
}

function responsesQuestion({ candidate }: Probe, bound: number): Question {
  const request = {
    model: candidate.model.id,
    input: QUESTION,
    max_output_tokens: bound,
    store: false,
  };
  const { object } = parseJsonObject(JSON.stringify(request));
  return {
    request: encodeResponses(object, candidate),
    check: (answer) => checkResponse(decodeAnswer(answer)),
  };
}

function checkCompletion({ candidate }: Probe, text: string): void {
  const { completion } = candidate.chat.read(text);
  const identity = {
    id: "",
    model: candidate.model.id,
    created: 0,
    unknownFields: "forward",
  } as const;
  publicCompletion(completion, identity);
}

function checkResponse(text: string): void {
  if (parseResponse(text)["status"] === "failed") throw new AnswerError("the response failed");
}
