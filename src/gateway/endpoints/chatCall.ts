import { cachePays } from "../../billing/cost.ts";
import { estimateTokens } from "../../billing/estimate.ts";
import type { ChatRequest } from "../../contract/chat/chatRequest.ts";
import { invalidRequest } from "../../contract/errors.ts";
import { isTotalLarger } from "../../contract/usage.ts";
import type { Endpoint } from "../../contract/account/requestStatus.ts";
import type { JsonObjectText } from "../../lib/json.ts";
import {
  adaptChat,
  addedPromptBytes,
  changedToolNames,
} from "../../providers/dialect/adaptChat.ts";
import { dialectOf, needsResponses, type Dialect } from "../../providers/dialect/dialect.ts";
import {
  decodeAnswer,
  UnsupportedRequestError,
  type ChatInterface,
  type EncodedRequest,
  type UsageMember,
} from "../../providers/provider.ts";
import { chatInterfaceOf } from "../../providers/registry.ts";
import type { Candidate } from "../../routing/candidates.ts";
import { boundsFor, type ChoiceBounds } from "../admission/admit.ts";
import { billedUsage } from "../billedUsage.ts";
import { ChatDecoder } from "../decoding/chatDecoder.ts";
import { publicCompletion, type AnswerIdentity } from "../decoding/publicAnswer.ts";
import { serviceOf } from "../interfaces.ts";
import type { ProviderCall, ReadAnswer } from "../providerCall.ts";
import type { AdmittedScope } from "../requestScope.ts";
import type { AnswerForm } from "../translation/answerForm.ts";

interface EncodedChat {
  readonly candidate: Candidate;
  readonly bounds: ChoiceBounds;
  readonly encoded: EncodedRequest;
}

/**
 * A chat as the routes serve it: the client's own, or one that was translated from another interface. It encodes the chat
 * for a route and reads the answer into the client's form.
 *
 * The check before the hold encodes the chat once. That result is sent if the same route and bound are used, so no chat is
 * encoded twice without need.
 */
export class ChatCall implements ProviderCall {
  readonly #endpoint: Endpoint;
  readonly #request: ChatRequest;
  readonly #object: JsonObjectText;
  readonly #identityOf: (model: string) => AnswerIdentity;
  readonly #formOf: (identity: AnswerIdentity, candidate: Candidate) => AnswerForm;
  /** The dialect of the last candidate, which is needed several times. */
  #dialect: { readonly candidate: Candidate; readonly dialect: Dialect } | undefined;
  /** May be as large as the body, so `encode` clears it. */
  #encoded: EncodedChat | undefined;

  constructor(
    endpoint: Endpoint,
    request: ChatRequest,
    object: JsonObjectText,
    identityOf: (model: string) => AnswerIdentity,
    formOf: (identity: AnswerIdentity, candidate: Candidate) => AnswerForm,
  ) {
    this.#endpoint = endpoint;
    this.#request = request;
    this.#object = object;
    this.#identityOf = identityOf;
    this.#formOf = formOf;
  }

  /** Throws ApiError 400 if no candidate can express the request. */
  refuseUnsupported(candidates: readonly Candidate[], outputTokensBound: number | undefined): void {
    if (candidates.some(({ chat }) => chat.supportsEverything)) return;
    let first: UnsupportedRequestError | undefined;
    for (const candidate of candidates) {
      try {
        const outputTokensMax = outputTokensBound ?? candidate.model.maxOutputTokens;
        const bounds = this.#boundsWithin(candidate, { outputTokensBound, outputTokensMax });
        this.#encoded = { candidate, bounds, encoded: this.#encodeFor(candidate, bounds) };
        return;
      } catch (error) {
        if (!(error instanceof UnsupportedRequestError)) throw error;
        first ??= error;
      }
    }
    if (first) throw invalidRequest(first.message);
  }

  /** The most bytes that a prompt has beyond the body, because it is adapted to a route. The hold pays for them too. */
  addedPromptBytes(candidates: readonly Candidate[]): number {
    const isAdapted = candidates.some((candidate) => !this.#keepsText(candidate));
    return isAdapted ? addedPromptBytes(this.#request.body) : 0;
  }

  encode(scope: AdmittedScope, candidate: Candidate): EncodedRequest {
    const bounds = this.#boundsWithin(candidate, boundsFor(scope, candidate.model));
    const last = this.#encoded;
    this.#encoded = undefined;
    const isSame = last?.candidate === candidate && areEqual(last.bounds, bounds);
    return isSame ? last.encoded : this.#encodeFor(candidate, bounds);
  }

  decoder(candidate: Candidate): ChatDecoder {
    const chat = this.#interfaceFor(candidate);
    const identity = this.#answerOf(candidate);
    return new ChatDecoder({
      readEvent: chat.events(),
      identity,
      form: this.#formOf(identity, candidate),
      choiceCount: this.#request.choiceCount,
      stop: this.#stopsToApply(candidate),
      eventsStandAlone: chat.eventsStandAlone,
    });
  }

  read(scope: AdmittedScope, received: Uint8Array, candidate: Candidate): ReadAnswer {
    const text = decodeAnswer(received);
    const reply = this.#interfaceFor(candidate).read(text);
    const { completion, usage, isUsageEarly = false, expensiveServices } = reply;
    const stops = this.#stopsToApply(candidate);
    const identity = this.#answerOf(candidate);
    const shown = publicCompletion(completion, identity, stops);
    const billed = billedUsage(scope, {
      usage,
      isUsageFinal: !isUsageEarly,
      usageProblem:
        usage && isTotalLarger(completion["usage"], usage) ? "total above its parts" : undefined,
      get textBytes() {
        return shown.textBytes;
      },
    });
    const form = this.#formOf(identity, candidate);
    return {
      body: form.completion(shown.completion, billed.tokens, completion["usage"]),
      billed,
      expensiveServices,
      objects: [],
      historyTokens: 0,
      model: completion["model"],
      finishReasons: shown.completion.choices.map(({ finish_reason }) => finish_reason),
    };
  }

  usageMember(candidate: Candidate): UsageMember {
    return this.#interfaceFor(candidate).usage;
  }

  #interfaceFor({ chat, provider, route }: Candidate): ChatInterface {
    const { hasTools, effort } = this.#request;
    const isEither = provider.config.kind === "openai" && route.api === "chat" && route.responses;
    if (!isEither || !needsResponses(route.model, { hasTools, effort })) return chat;
    return chatInterfaceOf(provider, "responses");
  }

  #dialectFor(candidate: Candidate): Dialect {
    if (this.#dialect?.candidate === candidate) return this.#dialect.dialect;
    const { provider, route, model } = candidate;
    const chat = this.#interfaceFor(candidate);
    const dialect = dialectOf({
      provider: provider.config,
      route,
      model,
      chat,
      isRewritten: this.#endpoint !== "chat",
      isNative: this.#keepsText(candidate),
    });
    this.#dialect = { candidate, dialect };
    return dialect;
  }

  /** The provider has the chat interface and gets the client's own text. */
  #keepsText(candidate: Candidate): boolean {
    return this.#interfaceFor(candidate) === candidate.chat && this.#isNative(candidate);
  }

  #isNative(candidate: Candidate): boolean {
    return serviceOf(this.#endpoint, candidate) === "native";
  }

  /** The client wrote the bound for another provider, so it may be above what the model can generate. */
  #boundsWithin(candidate: Candidate, bounds: ChoiceBounds): ChoiceBounds {
    const { outputTokensBound: bound } = bounds;
    const { maxOutputTokens } = candidate.model;
    if (bound === undefined || bound <= maxOutputTokens || this.#isNative(candidate)) return bounds;
    return { ...bounds, outputTokensBound: maxOutputTokens };
  }

  #answerOf(candidate: Candidate): AnswerIdentity {
    const names = changedToolNames(this.#request, this.#dialectFor(candidate));
    const identity = this.#identityOf(candidate.model.id);
    return names.size === 0 ? identity : { ...identity, toolNames: names };
  }

  /** The stop sequences that the provider does not take. The gateway ends the answer at them. */
  #stopsToApply(candidate: Candidate): readonly string[] {
    const chat = this.#interfaceFor(candidate);
    const { stop, moreStops = [] } = this.#request;
    const { refusesStop } = this.#dialectFor(candidate);
    const own = stop.filter((sequence) => refusesStop || !chat.takesStop(sequence));
    return [...own, ...moreStops];
  }

  #encodeFor(candidate: Candidate, bounds: ChoiceBounds): EncodedRequest {
    const { provider, route } = candidate;
    const chat = { request: this.#request, object: this.#object };
    return this.#interfaceFor(candidate).encode({
      ...adaptChat(chat, this.#dialectFor(candidate)),
      model: route.model,
      ...bounds,
      options: provider.config,
      cachesPrompt: cachesPrompt(candidate, this.#request),
    });
  }
}

/** No model of Anthropic caches a shorter prompt: https://platform.claude.com/docs/en/build-with-claude/prompt-caching */
const CACHED_TOKENS_MIN = 1024;

function cachesPrompt({ provider, model }: Candidate, { promptSize }: ChatRequest): boolean {
  const tokens = estimateTokens(promptSize.textBytes, promptSize.nonTextParts);
  return provider.config.automaticCache && tokens >= CACHED_TOKENS_MIN && cachePays(model.price);
}

function areEqual(one: ChoiceBounds, other: ChoiceBounds): boolean {
  return (
    one.outputTokensBound === other.outputTokensBound &&
    one.outputTokensMax === other.outputTokensMax
  );
}
