import { otherFigures } from "../../../contract/figures.ts";
import type { ChatChunk, UnbilledCompletion } from "../../../contract/chat/chatAnswer.ts";
import type { FinishReason } from "../../../contract/chat/finishReason.ts";
import type { StreamFailure } from "../../../contract/errors.ts";
import { totalTokens, type Usage } from "../../../contract/usage.ts";
import { fieldsOf, isGiven, type JsonFields } from "../../../lib/json.ts";
import { answerText } from "../../../providers/provider.ts";
import type { AnswerIdentity } from "../../decoding/publicAnswer.ts";
import { responsesFailure } from "../../decoding/responsesDecoder.ts";
import type { AnswerForm } from "../answerForm.ts";
import { ResponsesOutput } from "./responsesOutput.ts";
import type { ResponsesSettings } from "./responsesSettings.ts";

/** Why a response is incomplete. Any other finish reason completes it. */
const INCOMPLETE_REASONS: ReadonlyMap<unknown, string> = new Map<FinishReason, string>([
  ["length", "max_output_tokens"],
  ["content_filter", "content_filter"],
]);

/**
 * The form of POST /v1/responses for the answer to a chat: a response object, or the events of
 * https://platform.openai.com/docs/api-reference/responses-streaming. A response has one choice, so only the first is shown.
 */
export class ResponsesForm implements AnswerForm {
  readonly isPlain = false;
  readonly #identity: Pick<AnswerIdentity, "id" | "model" | "created">;
  readonly #settings: ResponsesSettings;
  readonly #output: ResponsesOutput;
  #sequence = 0;
  /** That of the answer, as far as it names one. */
  #serviceTier: unknown;
  /** The events since the last call. */
  #events = "";

  /** `identity.id` begins with `resp_`. */
  constructor(
    identity: Pick<AnswerIdentity, "id" | "model" | "created">,
    settings: ResponsesSettings,
  ) {
    this.#identity = identity;
    this.#settings = settings;
    const requestId = identity.id.replace(/^resp_/, "");
    this.#output = new ResponsesOutput({
      idOf: (prefix, index) => `${prefix}_${requestId}_${index}`,
      settings,
      emit: (type, fields) => this.#emit(type, fields),
    });
  }

  completion(completion: UnbilledCompletion, billed: Usage, reported: unknown): string {
    const { choices } = completion;
    this.#serviceTier = completion["service_tier"];
    const choice = choices.find(({ index }) => index === 0) ?? choices[0];
    this.#output.add(choice?.message ?? {}, choice?.["logprobs"]);
    const response = this.#finalResponse(choice?.finish_reason, billed, reported);
    this.#events = "";
    return answerText(response);
  }

  chunk(chunk: ChatChunk): string {
    const { choices } = chunk;
    this.#serviceTier = chunk["service_tier"] ?? this.#serviceTier;
    if (choices.length === 0) return "";
    this.#begin();
    for (const { index, delta, logprobs } of choices) {
      if (index === 0) this.#output.add(delta, logprobs);
    }
    this.#output.refuseExcess();
    return this.#takeEvents();
  }

  ending(held: readonly ChatChunk[], billed: Usage, reported: unknown): string {
    this.#begin();
    for (const chunk of held) this.#serviceTier = chunk["service_tier"] ?? this.#serviceTier;
    let finishReason: FinishReason | null | undefined;
    for (const { index, delta, logprobs, finish_reason: reason } of held.flatMap(
      ({ choices }) => choices,
    )) {
      if (index !== 0) continue;
      this.#output.add(delta, logprobs);
      finishReason = reason;
    }
    const response = this.#finalResponse(finishReason, billed, reported);
    this.#emit(`response.${String(response["status"])}`, { response });
    return this.#takeEvents();
  }

  failure(error: StreamFailure): string {
    return responsesFailure(this.#sequence, error);
  }

  #begin(): void {
    if (this.#sequence > 0) return;
    const response = this.#response({ status: "in_progress", output: [], usage: null });
    this.#emit("response.created", { response });
    this.#emit("response.in_progress", { response });
  }

  #finalResponse(finishReason: unknown, billed: Usage, reported: unknown): JsonFields {
    const reason = INCOMPLETE_REASONS.get(finishReason);
    const output = this.#output.end(reason === undefined ? "completed" : "incomplete");
    return this.#response({
      status: reason === undefined ? "completed" : "incomplete",
      incomplete_details: reason === undefined ? null : { reason },
      output,
      usage: usageOf(billed, reported),
      ...(isGiven(this.#serviceTier) && { service_tier: this.#serviceTier }),
    });
  }

  #response(fields: JsonFields): JsonFields {
    const { id, model, created } = this.#identity;
    const { repeated } = this.#settings;
    const head = { id, object: "response", created_at: created, model, error: null };
    return { ...head, incomplete_details: null, ...repeated, ...fields };
  }

  #emit(type: string, fields: JsonFields): void {
    const data = JSON.stringify({ type, sequence_number: this.#sequence++, ...fields });
    this.#events += `event: ${type}\ndata: ${data}\n\n`;
  }

  #takeEvents(): string {
    const events = this.#events;
    this.#events = "";
    return events;
  }
}

/**
 * https://platform.openai.com/docs/api-reference/responses/object#responses-object-usage. Cache writes for an hour and
 * what is billed one by one are shown where there are any.
 */
function usageOf(billed: Usage, reported: unknown): JsonFields {
  const details = fieldsOf(fieldsOf(reported)["completion_tokens_details"]);
  const { reasoning_tokens: reasoningTokens } = details;
  const isCount = Number.isSafeInteger(reasoningTokens);
  return {
    input_tokens: billed.promptTokens,
    input_tokens_details: {
      cached_tokens: billed.cachedTokens,
      cache_write_tokens: billed.cacheWriteTokens,
      ...(billed.cacheWrite1hTokens > 0 && { cache_write_1h_tokens: billed.cacheWrite1hTokens }),
    },
    output_tokens: billed.completionTokens,
    output_tokens_details: { reasoning_tokens: isCount ? reasoningTokens : 0 },
    total_tokens: totalTokens(billed),
    ...Object.fromEntries(
      otherFigures
        .filter(({ name }) => billed[name] > 0)
        .map(({ name, field }) => [field, billed[name]]),
    ),
  };
}
