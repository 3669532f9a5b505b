import { figuresOf, type ChatRequest } from "../../contract/chat/chatRequest.ts";
import { invalidRequest } from "../../contract/errors.ts";
import { isTotalLarger } from "../../contract/usage.ts";
import type { ModelConfig } from "../../config/schema.ts";
import type { Endpoint } from "../../contract/account/requestStatus.ts";
import type { JsonObjectText } from "../../lib/json.ts";
import { addedPromptBytes, keepsChats } from "../../providers/dialect/adaptChat.ts";
import {
  decodeAnswer,
  UnsupportedRequestError,
  type ChatInterface,
  type EncodedRequest,
  type UsageMember,
} from "../../providers/provider.ts";
import type { Candidate } from "../../routing/candidates.ts";
import { boundsFor } from "../admission/admit.ts";
import { billedUsage } from "../billedUsage.ts";
import { ChatDecoder } from "../decoding/chatDecoder.ts";
import { publicCompletion, type AnswerIdentity } from "../decoding/publicAnswer.ts";
import { serviceOf } from "../interfaces.ts";
import type { RunTask } from "../largeBodies/largeBodies.ts";
import type { ProviderCall, ReadAnswer } from "../providerCall.ts";
import type { AdmittedScope } from "../requestScope.ts";
import type { AnswerForm } from "../translation/answerForm.ts";
import {
  chatTargetOf,
  dialectFor,
  encodeChat,
  interfaceFor,
  type ChatTarget,
  type ChoiceBounds,
  type EncodedChat,
} from "./chatTarget.ts";

interface LastEncoded extends EncodedChat {
  readonly candidate: Candidate;
  readonly bounds: ChoiceBounds;
}

/** A chat and its text. */
export interface ChatSource {
  readonly endpoint: Endpoint;
  readonly request: ChatRequest;
  readonly object: JsonObjectText;
  /** Set for a large body: the Worker writes it, unless the text stays as it is. */
  readonly runTask: RunTask | undefined;
  /** The maximum of calls of the provider's tools that is sent, by the model. */
  readonly toolCallsMax?: ReadonlyMap<ModelConfig, number> | undefined;
}

/**
 * A chat as the routes serve it: the client's own, or one that was translated from another interface. It encodes the chat
 * for a route and reads the answer into the client's form.
 *
 * The check before the hold encodes the chat once. That result is sent if the same route and bound are used, so no chat is
 * encoded twice without need.
 */
export class ChatCall implements ProviderCall {
  readonly #source: ChatSource;
  readonly #identityOf: (model: string) => AnswerIdentity;
  readonly #formOf: (identity: AnswerIdentity, candidate: Candidate) => AnswerForm;
  /** The target of the last candidate, which is needed several times. */
  #target: { readonly candidate: Candidate; readonly target: ChatTarget } | undefined;
  /** May be as large as the body, so `encode` clears it. */
  #encoded: LastEncoded | undefined;
  /** Of the last encoded chat. */
  #toolNames: EncodedChat["toolNames"] = new Map();

  constructor(
    source: ChatSource,
    identityOf: (model: string) => AnswerIdentity,
    formOf: (identity: AnswerIdentity, candidate: Candidate) => AnswerForm,
  ) {
    this.#source = source;
    this.#identityOf = identityOf;
    this.#formOf = formOf;
  }

  /** Rejects with ApiError 400 if no candidate can express the request. */
  async refuseUnsupported(
    candidates: readonly Candidate[],
    outputTokensBound: number | undefined,
  ): Promise<void> {
    if (candidates.some(({ chat }) => chat.supportsEverything)) return;
    let first: UnsupportedRequestError | undefined;
    for (const candidate of candidates) {
      try {
        const outputTokensMax = outputTokensBound ?? candidate.model.maxOutputTokens;
        const bounds = this.#boundsWithin(candidate, { outputTokensBound, outputTokensMax });
        const chat = await this.#encodeFor(candidate, bounds);
        this.#encoded = { candidate, bounds, ...chat };
        return;
      } catch (error) {
        if (!(error instanceof UnsupportedRequestError)) throw error;
        first ??= error;
      }
    }
    if (first) throw invalidRequest(first.message);
  }

  /** The most bytes that a prompt has beyond the body, because it is adapted to a route. The hold pays for them too. */
  addedPromptBytes(candidates: readonly Candidate[]): number | Promise<number> {
    if (candidates.every((candidate) => this.#targetOf(candidate).isNative)) return 0;
    const { request, runTask } = this.#source;
    return runTask ? runTask("addedPromptBytes", undefined) : addedPromptBytes(request.body);
  }

  encode(scope: AdmittedScope, candidate: Candidate): EncodedRequest | Promise<EncodedRequest> {
    const bounds = this.#boundsWithin(candidate, boundsFor(scope, candidate.model));
    const last = this.#encoded;
    this.#encoded = undefined;
    const isSame = last?.candidate === candidate && areEqual(last.bounds, bounds);
    const chat = isSame ? last : this.#encodeFor(candidate, bounds);
    return chat instanceof Promise ? chat.then((one) => this.#sent(one)) : this.#sent(chat);
  }

  decoder(candidate: Candidate): ChatDecoder {
    const chat = interfaceFor(this.#targetOf(candidate));
    const identity = this.#answerOf(candidate);
    return new ChatDecoder({
      readEvent: chat.events(),
      identity,
      form: this.#formOf(identity, candidate),
      choiceCount: this.#source.request.choiceCount,
      stop: this.#stopsToApply(candidate),
      eventsStandAlone: chat.eventsStandAlone,
    });
  }

  read(scope: AdmittedScope, received: Uint8Array, candidate: Candidate): ReadAnswer {
    const text = decodeAnswer(received);
    const reply = this.#interfaceFor(candidate).read(text);
    const { completion, usage, isUsageEarly = false, services } = reply;
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
      services,
      objects: [],
      historyTokens: 0,
      model: completion["model"],
      finishReasons: shown.completion.choices.map(({ finish_reason }) => finish_reason),
    };
  }

  usageMember(candidate: Candidate): UsageMember {
    return this.#interfaceFor(candidate).usage;
  }

  #interfaceFor(candidate: Candidate): ChatInterface {
    return interfaceFor(this.#targetOf(candidate));
  }

  #targetOf(candidate: Candidate): ChatTarget {
    if (this.#target?.candidate === candidate) return this.#target.target;
    const { endpoint, request, toolCallsMax } = this.#source;
    const target = chatTargetOf(endpoint, request, candidate, toolCallsMax?.get(candidate.model));
    this.#target = { candidate, target };
    return target;
  }

  #isNative(candidate: Candidate): boolean {
    return serviceOf(this.#source.endpoint, candidate) === "native";
  }

  /** The client wrote the bound for another provider, so it may be above what the model can generate. */
  #boundsWithin(candidate: Candidate, bounds: ChoiceBounds): ChoiceBounds {
    const { outputTokensBound: bound } = bounds;
    const { maxOutputTokens } = candidate.model;
    if (bound === undefined || bound <= maxOutputTokens || this.#isNative(candidate)) return bounds;
    return { ...bounds, outputTokensBound: maxOutputTokens };
  }

  #answerOf(candidate: Candidate): AnswerIdentity {
    const identity = this.#identityOf(candidate.model.id);
    const names = this.#toolNames;
    return names.size === 0 ? identity : { ...identity, toolNames: names };
  }

  /** The stop sequences that the provider does not take. The gateway ends the answer at them. */
  #stopsToApply(candidate: Candidate): readonly string[] {
    const target = this.#targetOf(candidate);
    const { stop, moreStops = [] } = this.#source.request;
    const { refusesStop } = dialectFor(target);
    const own = stop.filter((sequence) => refusesStop || !interfaceFor(target).takesStop(sequence));
    return [...own, ...moreStops];
  }

  #encodeFor(candidate: Candidate, bounds: ChoiceBounds): EncodedChat | Promise<EncodedChat> {
    const target = this.#targetOf(candidate);
    const { request, object, runTask } = this.#source;
    if (!runTask || keepsText(request, target))
      return encodeChat({ request, object }, target, bounds);
    const { members } = object;
    return runTask("encodeChat", { request: figuresOf(request), members, target, bounds });
  }

  #sent({ encoded, toolNames }: EncodedChat): EncodedRequest {
    this.#toolNames = toolNames;
    return encoded;
  }
}

const ALWAYS_IN_MESSAGES: ReadonlySet<string> = new Set(["role", "content"]);

/** Whether the chat is written without reading its texts. */
function keepsText({ fieldSizes }: ChatRequest, target: ChatTarget): boolean {
  const { dropMessageFields } = target.provider;
  return (
    target.isNative &&
    keepsChats(dialectFor(target)) &&
    !dropMessageFields.some((name) => fieldSizes.has(name) || ALWAYS_IN_MESSAGES.has(name))
  );
}

function areEqual(one: ChoiceBounds, other: ChoiceBounds): boolean {
  return (
    one.outputTokensBound === other.outputTokensBound &&
    one.outputTokensMax === other.outputTokensMax
  );
}
