import { cachePays } from "../../billing/cost.ts";
import { estimateTokens } from "../../billing/estimate.ts";
import type { ChatRequest } from "../../contract/chat/chatRequest.ts";
import { invalidRequest } from "../../contract/errors.ts";
import { isTotalLarger } from "../../contract/usage.ts";
import type { JsonObjectText } from "../../lib/json.ts";
import { scanObject } from "../../lib/jsonObject.ts";
import { splice } from "../../lib/splice.ts";
import {
  decodeAnswer,
  stopsToApply,
  UnsupportedRequestError,
  type ChatCall,
  type EncodedRequest,
} from "../../providers/provider.ts";
import type { Candidate } from "../../routing/candidates.ts";
import type { Admission, ChoiceBounds } from "../admission/admit.ts";
import type { ReadAnswer } from "../answerJson.ts";
import { billedUsage } from "../billedUsage.ts";
import { ChatDecoder } from "../decoding/chatDecoder.ts";
import { publicCompletion, type AnswerIdentity } from "../decoding/publicAnswer.ts";
import type { AnswerForm } from "../translation/answerForm.ts";

interface EncodedChat {
  readonly candidate: Candidate;
  readonly bounds: ChoiceBounds;
  readonly encoded: EncodedRequest;
}

/** OpenAI's models that reason, also under a vendor's prefix: https://platform.openai.com/docs/guides/reasoning */
const TAKES_EFFORT = /(?:^|\/)(?:o\d|gpt-(?:[5-9]|oss))(?!.*chat)/i;

/**
 * A chat as the routes serve it: the client's own, or one that was translated from another interface. It encodes the chat
 * for a route and reads the answer into the client's form.
 *
 * The check before the hold encodes the chat once. That result is sent if the same route and bound are used, so no chat is
 * encoded twice without need.
 */
export class ProviderChat {
  readonly #request: ChatRequest;
  readonly #object: JsonObjectText;
  readonly #identityOf: (model: string) => AnswerIdentity;
  readonly #formOf: (identity: AnswerIdentity) => AnswerForm;
  readonly #isTranslated: boolean;
  /** May be as large as the body, so `encode` clears it. */
  #encoded: EncodedChat | undefined;

  constructor(
    request: ChatRequest,
    object: JsonObjectText,
    identityOf: (model: string) => AnswerIdentity,
    formOf: (identity: AnswerIdentity) => AnswerForm,
    { isTranslated = false } = {},
  ) {
    this.#request = request;
    this.#object = object;
    this.#identityOf = identityOf;
    this.#formOf = formOf;
    this.#isTranslated = isTranslated;
  }

  /** Throws ApiError 400 if no candidate can express the request. */
  refuseUnsupported(candidates: readonly Candidate[], outputTokensBound: number | undefined): void {
    if (candidates.some(({ chat }) => chat.supportsEverything)) return;
    let first: UnsupportedRequestError | undefined;
    for (const candidate of candidates) {
      try {
        const outputTokensMax = outputTokensBound ?? candidate.model.maxOutputTokens;
        const bounds = { outputTokensBound, outputTokensMax };
        this.#encoded = { candidate, bounds, encoded: this.#encodeFor(candidate, bounds) };
        return;
      } catch (error) {
        if (!(error instanceof UnsupportedRequestError)) throw error;
        first ??= error;
      }
    }
    if (first) throw invalidRequest(first.message);
  }

  /** Throws UnsupportedRequestError. */
  encode(candidate: Candidate, { boundsFor }: Admission): EncodedRequest {
    const bounds = boundsFor(candidate.model);
    const last = this.#encoded;
    this.#encoded = undefined;
    const isSame = last?.candidate === candidate && areEqual(last.bounds, bounds);
    return isSame ? last.encoded : this.#encodeFor(candidate, bounds);
  }

  /** Makes the decoder of a streamed answer. */
  decoder(candidate: Candidate): ChatDecoder {
    const { chat, model } = candidate;
    const identity = this.#identityOf(model.id);
    return new ChatDecoder({
      readEvent: chat.events(),
      identity,
      form: this.#formOf(identity),
      choiceCount: this.#request.choiceCount,
      stop: this.#stopsToApply(candidate),
      eventsStandAlone: chat.eventsStandAlone,
    });
  }

  /** Reads an answer in JSON. Throws AnswerError. */
  read(received: Uint8Array, candidate: Candidate, admission: Admission): ReadAnswer {
    const text = decodeAnswer(received);
    const reply = candidate.chat.read(text);
    const { completion, usage, isUsageEarly = false, expensiveServices } = reply;
    const stops = this.#stopsToApply(candidate);
    const identity = this.#identityOf(candidate.model.id);
    const shown = publicCompletion(completion, identity, stops);
    const billed = billedUsage(admission, {
      usage,
      isUsageFinal: !isUsageEarly,
      usageProblem:
        usage && isTotalLarger(completion["usage"], usage) ? "total above its parts" : undefined,
      get textBytes() {
        return shown.textBytes;
      },
    });
    const form = this.#formOf(identity);
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

  /**
   * Clients of other interfaces send an effort to every model. The chat interface has none that every model accepts: many
   * answer 400. So a translated chat has it only for models that are known to take it.
   */
  #chatFor({ provider, route }: Candidate): Pick<ChatCall, "request" | "object"> {
    const request = this.#request;
    const object = this.#object;
    const { reasoning_effort: effort = null } = request.body;
    const isKept = !this.#isTranslated || effort === null || provider.config.kind !== "openai";
    if (isKept || TAKES_EFFORT.test(route.model)) return { request, object };
    const body = { ...request.body, reasoning_effort: null };
    const text = splice(object, { remove: ["reasoning_effort"] });
    return { request: { ...request, body }, object: scanObject(text) };
  }

  #stopsToApply({ chat, route }: Candidate): readonly string[] {
    return stopsToApply(chat, this.#request.stop, route.model);
  }

  #encodeFor(candidate: Candidate, bounds: ChoiceBounds): EncodedRequest {
    const { provider, route, chat } = candidate;
    return chat.encode({
      ...this.#chatFor(candidate),
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
