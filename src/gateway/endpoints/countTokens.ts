import { checkCountTokensRequest } from "../../contract/messages/messagesRequest.ts";
import { Deadline } from "../../lib/clock.ts";
import { fieldsOf, type JsonObjectText } from "../../lib/json.ts";
import { AnswerError, decodeAnswer, parseAnswerJson } from "../../providers/provider.ts";
import { UpstreamError } from "../../providers/upstream.ts";
import { orderCandidates, type Candidate } from "../../routing/candidates.ts";
import { takeAvailable } from "../../routing/attempts.ts";
import { clientGone, toUpstreamError, type Answer } from "../answer.ts";
import { findModel } from "../catalog.ts";
import { checkBody, taskRunner } from "../largeBodies/checkBody.ts";
import { callerFault } from "../providerCall.ts";
import type { RequestScope } from "../requestScope.ts";
import { estimateOf, isNative } from "./messages.ts";
import { messagesHeaders, ownMessages, refuseForeignFiles } from "./messagesRequest.ts";

/** No provider is waited for after this time, in milliseconds. */
const COUNT_TIMEOUT_MS = 10_000;

/** Marks a count that is the gateway's estimate. */
const ESTIMATED_HEADER = "x-tollgate-estimated";

/**
 * Counts the tokens of a prompt in the Messages interface: a provider of kind anthropic counts them. Without such a route,
 * or if none answers, the answer is the gateway's estimate, marked by a header. It costs nothing, and says nothing about the
 * health of a route: many compatible servers do not have this call. Throws ApiError.
 */
export async function countTokens(scope: RequestScope, body: Uint8Array): Promise<Answer> {
  const { request, object } = await checkBody(
    scope,
    body,
    "checkCountTokens",
    checkCountTokensRequest,
  );
  scope.addLogFields({ endpoint: "count_tokens", model: request.model, stream: false });
  const { gateway, caller } = scope;
  const model = findModel(scope.snapshot.catalog, caller.models, request.model, "chat");
  refuseForeignFiles(scope, request.objectIds);
  const headers = messagesHeaders(scope);
  const native = model.chatCandidates.filter(isNative);
  const call = { object: await ownMessages(object, taskRunner(scope, object)), headers };
  const dueMs = gateway.clock.monotonicMs() + COUNT_TIMEOUT_MS;
  for (const candidate of orderCandidates(native, undefined, gateway.random)) {
    if (!takeAvailable(candidate, caller.accountId, gateway.health)) continue;
    const counted = await askProvider(scope, candidate, { ...call, dueMs });
    if (counted !== undefined) return { kind: "json", body: counted, headers: {} };
    if (scope.signal.aborted || gateway.inFlight.isAborting) break;
    if (gateway.clock.monotonicMs() >= dueMs) break;
  }
  const estimate = JSON.stringify({ input_tokens: estimateOf(request) });
  return { kind: "json", body: estimate, headers: { [ESTIMATED_HEADER]: "true" } };
}

interface CountCall {
  readonly object: JsonObjectText;
  readonly headers: Readonly<Record<string, string>>;
  /** In monotonic time. */
  readonly dueMs: number;
}

/** The provider's answer; undefined if it has none. Throws ApiError 400 if the caller is at fault. */
async function askProvider(
  scope: RequestScope,
  { provider, route }: Candidate,
  { dueMs, ...call }: CountCall,
): Promise<Uint8Array | undefined> {
  const { dropFields } = provider.config;
  const encoded = provider.adapter.messages?.encodeCount({
    ...call,
    model: route.model,
    dropFields,
  });
  if (!encoded) return undefined;
  const { gateway, requestId, signal } = scope;
  await provider.key?.ready();
  const exchange = provider.upstream.send({ ...encoded, stream: false, requestId });
  gateway.inFlight.exchanges.add(exchange);
  const timeout = new Deadline(gateway.deadlines, () =>
    exchange.abort(new UpstreamError("provider", "timeout")),
  );
  const onAbort = (): void => exchange.abort(clientGone());
  timeout.setAt(dueMs);
  signal.addEventListener("abort", onAbort);
  try {
    const answer = await exchange.answer;
    const { input_tokens: count } = fieldsOf(parseAnswerJson(decodeAnswer(answer)));
    if (!Number.isSafeInteger(count)) throw new AnswerError("the answer is not a count");
    return answer;
  } catch (error) {
    const refusal = callerFault(toUpstreamError(error));
    if (refusal) throw refusal;
    return undefined;
  } finally {
    timeout.clear();
    signal.removeEventListener("abort", onAbort);
    gateway.inFlight.exchanges.delete(exchange);
  }
}
