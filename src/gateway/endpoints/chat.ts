import { promptTokensMin } from "../../billing/cost.ts";
import { estimateTokens } from "../../billing/estimate.ts";
import { chatFiguresOf, withBody, type ChatRequest } from "../../contract/chat/chatRequest.ts";
import { resourceNotFound, type ApiError } from "../../contract/errors.ts";
import { checkPromptBody, type CheckedPrompt } from "../../contract/jsonBody.ts";
import { askedWithCache, longPromptCacheTtl } from "../../contract/requestFields.ts";
import type { Candidate } from "../../routing/candidates.ts";
import { sessionOf } from "../admission/session.ts";
import { admit } from "../admission/admit.ts";
import { modelsThatSell, toolCallsMaxima } from "../admission/soldExtras.ts";
import type { Answer } from "../answer.ts";
import { answerJson } from "../answerJson.ts";
import { chatCandidatesOf, findModels, type CatalogModel } from "../catalog.ts";
import { pricesFor } from "../soldPrices.ts";
import { wholeValue } from "../../lib/jsonObject.ts";
import { ChatForm } from "../decoding/chatForm.ts";
import type { AnswerIdentity } from "../decoding/publicAnswer.ts";
import { checkInWorker, isLarge, taskRunner } from "../largeBodies/checkBody.ts";
import { withChecked, type Checked, type RequestScope } from "../requestScope.ts";
import { ChatCall } from "./chatCall.ts";
import { openStream } from "../streaming/openStream.ts";

/**
 * The path of a chat request: check it, find the model, check that a route can express it, hold the money, let the routes
 * answer, charge, and only then send the end of the answer. Throws ApiError; the hold is released by then.
 */
export async function chat(scope: RequestScope, body: Uint8Array): Promise<Answer> {
  const { request, object, sessionName } = await (isLarge(body) ? checkLarge : checkHere)(
    scope,
    body,
  );
  const { model, stream, outputTokensBound } = request;
  scope.addLogFields({ endpoint: "chat", model, stream });
  const named = findModels(scope.snapshot.catalog, scope.caller.models, model);
  const models = modelsThatSell(scope, "chat", request, named, (one) =>
    longCacheIn(scope, request, one),
  );
  refuseStoredFiles(scope, request);
  const candidates = chatCandidatesOf(models);
  const identityFor = (id: string): AnswerIdentity => identityOf(scope, id);
  const forms = chatForms(request.includeUsage);
  const runTask = taskRunner(scope, object);
  const toolCallsMax = toolCallsMaxima(scope, request, models);
  const source = { endpoint: "chat", request, object, runTask, toolCallsMax } as const;
  const call = new ChatCall(source, identityFor, forms);
  await call.refuseUnsupported(candidates, outputTokensBound);
  const addedBytes = await call.addedPromptBytes(candidates);
  const checked = withChecked(scope, {
    endpoint: "chat",
    stream,
    serviceTier: request.serviceTier,
    models,
    candidates,
    session: sessionOf(scope, candidates, sessionName),
    prompt: {
      bodyBytes: object.bytes.length + addedBytes,
      messageCount: request.messageCount,
      unbounded: request.needsWholeContext,
      asked: askedWithCache(request),
      most: request.most,
    },
    ...promptFiguresOf(request, candidates),
    attachmentTokens: request.promptSize.attachmentTokens,
    outputTokensBound,
    choiceCount: request.choiceCount,
  });
  const admitted = await admit(checked);
  if (!stream) return answerJson(admitted, call);
  return openStream(admitted, call, (error) =>
    forms(identityFor(model)).failure(error.toBody().error),
  );
}

function checkHere({ snapshot }: RequestScope, body: Uint8Array): CheckedPrompt<ChatRequest> {
  return checkPromptBody(body, (value, whole) =>
    withBody(chatFiguresOf(value, snapshot.config.api), whole),
  );
}

async function checkLarge(
  scope: RequestScope,
  body: Uint8Array,
): Promise<CheckedPrompt<ChatRequest>> {
  const checked = await checkInWorker(scope, body, "checkChat");
  const { request, object } = checked;
  return { ...checked, request: withBody(request, () => wholeValue(object)) };
}

/** A separate function, because a stream retains its form (memory rules: docs/contribute/architecture.md). */
function chatForms(includeUsage: boolean): (identity: AnswerIdentity) => ChatForm {
  return (identity) => new ChatForm(identity, includeUsage);
}

/** The figures of the prompt, without fields that every route drops (`drop_message_fields`). */
function promptFiguresOf(
  request: ChatRequest,
  candidates: readonly Candidate[],
): Pick<Checked, "promptEstimate" | "promptTokensMin"> {
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

/** A separate function, because a stream retains `unknownFinishReason` (memory rules: docs/contribute/architecture.md). */
export function identityOf(scope: RequestScope, model: string): AnswerIdentity {
  const { gateway, requestId } = scope;
  const { unknownFields, usageChunk } = scope.snapshot.config.api;
  return {
    id: requestId.replace("req_", "chatcmpl-"),
    model,
    created: Math.floor(gateway.clock.epochMs() / 1000),
    unknownFields,
    usageChunk,
    unknownFinishReason: () => gateway.metrics.unknownFinishReason(model),
  };
}

/**
 * The 400 of a cache write for an hour, unless the model sells it and every route reports how many tokens are kept for how
 * long.
 */
function longCacheIn(
  scope: RequestScope,
  request: ChatRequest,
  { config, chatCandidates }: CatalogModel,
): ApiError | undefined {
  if (!request.usesLongCacheTtl) return undefined;
  const { sells } = pricesFor(scope, config);
  const areReported = chatCandidates.every(({ provider }) => provider.config.kind === "anthropic");
  return sells.cacheWrite1hTokens && areReported ? undefined : longPromptCacheTtl();
}

/** Refuses files of the provider in a chat's prompt, unless shared: their owner is not known. Throws ApiError 404. */
function refuseStoredFiles({ snapshot }: RequestScope, request: ChatRequest): void {
  const { sharedObjects } = snapshot.config.api;
  if (request.objectIds.some((id) => !sharedObjects.includes(id))) throw resourceNotFound();
}
