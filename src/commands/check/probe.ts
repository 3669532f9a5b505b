import type { ChatApi } from "../../config/schema.ts";
import { checkChatRequest } from "../../contract/chat/chatRequest.ts";
import { checkEmbeddingsRequest } from "../../contract/embeddings.ts";
import { parseJsonObject } from "../../contract/jsonBody.ts";
import type { Endpoint } from "../../contract/account/requestStatus.ts";
import type { Catalog, CatalogModel } from "../../gateway/catalog.ts";
import { publicCompletion } from "../../gateway/decoding/publicAnswer.ts";
import { abortExchange } from "../../gateway/answer.ts";
import { encodeEmbeddings, interfaceOf } from "../../gateway/endpoints/embeddings.ts";
import { encodeResponses, parseResponse } from "../../gateway/endpoints/responses.ts";
import { AnswerError, decodeAnswer, type EncodedRequest } from "../../providers/provider.ts";
import { upstreamErrorOf, type UpstreamError } from "../../providers/upstream.ts";
import type { Candidate } from "../../routing/candidates.ts";

/** A route, and an endpoint that it serves. */
export interface Probe {
  readonly model: CatalogModel;
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

/** The probes of all routes, in the order of the config. */
export function probesOf(catalog: Catalog): readonly Probe[] {
  return catalog.models
    .values()
    .toArray()
    .flatMap((model) => (model.config.kind === "chat" ? chatProbes : embeddingsProbes)(model));
}

function chatProbes(model: CatalogModel): readonly Probe[] {
  return model.chatCandidates.flatMap((candidate): Probe[] => {
    const chat = { model, candidate, endpoint: "chat", api: candidate.route.api } as const;
    const responses = { model, candidate, endpoint: "responses", api: "responses" } as const;
    return candidate.route.responses ? [chat, responses] : [chat];
  });
}

function embeddingsProbes(model: CatalogModel): readonly Probe[] {
  return model.embeddingsCandidates.map((candidate) => ({
    model,
    candidate,
    endpoint: "embeddings",
    api: "embeddings",
  }));
}

/**
 * Asks the route for the shortest answer, with the code that serves clients but without billing. Resolves with the
 * failure, if any. An empty answer is a success: a reasoning model spends its one token on reasoning.
 */
export async function askRoute(
  probe: Probe,
  requestId: string,
): Promise<UpstreamError | undefined> {
  let failure: UpstreamError | undefined;
  for (const bound of boundsFor(probe)) {
    failure = await askWithBound(probe, bound, requestId);
    if (failure?.fault !== "caller") break;
  }
  return failure;
}

/** An embeddings request has no bound and is sent once. */
function boundsFor({ api, model }: Probe): readonly number[] {
  if (api === "embeddings") return [0];
  const { maxOutputTokens } = model.config;
  const least = api === "responses" ? RESPONSES_BOUND_MIN : 1;
  const bounds = BOUNDS.filter((bound) => bound >= least && bound <= maxOutputTokens);
  return bounds.length > 0 ? bounds : [maxOutputTokens];
}

async function askWithBound(
  probe: Probe,
  bound: number,
  requestId: string,
): Promise<UpstreamError | undefined> {
  const { upstream } = probe.candidate.provider;
  let question: Question;
  try {
    question = questionFor(probe, bound);
  } catch (error) {
    const failure = upstreamErrorOf(error);
    if (!failure) throw error;
    return failure;
  }
  const exchange = upstream.send({ ...question.request, stream: false, requestId });
  try {
    question.check(await exchange.answer);
    return undefined;
  } catch (error) {
    return abortExchange(exchange, error);
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

function embeddingsQuestion({ candidate, model }: Probe): Question {
  const { value, object } = parseJsonObject({
    text: JSON.stringify({ model: model.config.id, input: QUESTION }),
  });
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
  const { candidate, model } = probe;
  const messages = [{ role: "user", content: QUESTION }];
  const { value, object } = parseJsonObject({
    text: JSON.stringify({ model: model.config.id, messages, max_tokens: bound }),
  });
  const request = candidate.chat.encode({
    request: checkChatRequest(value, {
      unknownFields: "forward",
      refusedFields: [],
      refusedTools: [],
      allowedTools: [],
    }),
    object,
    model: candidate.route.model,
    outputTokensBound: bound,
    outputTokensMax: bound,
    options: candidate.provider.config,
  });
  return { request, check: (answer) => checkCompletion(probe, decodeAnswer(answer)) };
}

function responsesQuestion({ candidate, model }: Probe, bound: number): Question {
  const request = {
    model: model.config.id,
    input: QUESTION,
    max_output_tokens: bound,
    store: false,
  };
  const { object } = parseJsonObject({ text: JSON.stringify(request) });
  return {
    request: encodeResponses(object, candidate),
    check: (answer) => checkResponse(decodeAnswer(answer)),
  };
}

function checkCompletion({ candidate, model }: Probe, text: string): void {
  const { completion } = candidate.chat.read(text);
  const identity = {
    id: "",
    model: model.config.id,
    created: 0,
    unknownFields: "forward",
  } as const;
  publicCompletion(completion, identity);
}

function checkResponse(text: string): void {
  if (parseResponse(text)["status"] === "failed") throw new AnswerError("the response failed");
}
