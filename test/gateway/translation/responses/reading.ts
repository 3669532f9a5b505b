import type { ChatChunk, ChunkChoice } from "../../../../src/contract/chat/chatAnswer.ts";
import type { FinishReason } from "../../../../src/contract/chat/finishReason.ts";
import { type Usage, noUsage } from "../../../../src/contract/usage.ts";
import { ResponsesForm } from "../../../../src/gateway/translation/responses/chatToResponses.ts";
import { settingsOf } from "../../../../src/gateway/translation/responses/responsesSettings.ts";
import type { JsonFields } from "../../../../src/lib/json.ts";

const identity = { id: "resp_0123", model: "small", created: 1_700_000_000 };
const chunkHead = {
  id: "chatcmpl-1",
  object: "chat.completion.chunk",
  created: 1_700_000_000,
  model: "small",
} as const;

export const billed: Usage = {
  ...noUsage,
  promptTokens: 20,
  cachedTokens: 5,
  cacheWriteTokens: 3,
  completionTokens: 7,
};
export const reported = { completion_tokens_details: { reasoning_tokens: 4 } };

/** The form for a request with these fields. */
export function formFor(fields: object = {}): ResponsesForm {
  return new ResponsesForm(identity, settingsOf({ model: "small", store: false, ...fields }));
}

/** An event of a stream. */
export interface ResponsesEvent extends JsonFields {
  readonly type: string;
  readonly sequence_number: number;
}

/** The events in the bytes of a stream. Each is named by its type. */
export function eventsIn(bytes: string): readonly ResponsesEvent[] {
  return bytes
    .split("\n\n")
    .slice(0, -1)
    .map((event) => {
      const [, name, data] = /^event: (.*)\ndata: (.*)$/.exec(event) ?? [];
      const fields = JSON.parse(data ?? "") as ResponsesEvent;
      if (fields.type !== name) throw new Error(`the event ${name} has the type ${fields.type}`);
      return fields;
    });
}

/** What a client gets of a stream of these deltas. The last one comes with the finish reason. */
export function streamed(
  form: ResponsesForm,
  deltas: readonly JsonFields[],
  finishReason: FinishReason = "stop",
): string {
  const chunks = deltas.slice(0, -1).map((delta) => form.chunk(chunkOf(delta, null)));
  return [
    ...chunks,
    form.ending([chunkOf(deltas.at(-1) ?? {}, finishReason)], billed, reported),
  ].join("");
}

/** `logprobs` in a delta are put beside it. */
export function chunkOf(
  { logprobs, ...delta }: JsonFields,
  finishReason: FinishReason | null,
): ChatChunk {
  const beside = logprobs === undefined ? {} : { logprobs };
  const choice: ChunkChoice = { index: 0, delta, finish_reason: finishReason, ...beside };
  return { ...chunkHead, choices: [choice] };
}

/** What a client gets of a whole answer with this message. */
export function whole(
  form: ResponsesForm,
  { logprobs, ...message }: JsonFields,
  finishReason: FinishReason = "stop",
): JsonFields {
  const beside = logprobs === undefined ? {} : { logprobs };
  const text = form.completion(
    {
      ...chunkHead,
      object: "chat.completion",
      choices: [
        {
          index: 0,
          finish_reason: finishReason,
          message: { content: "", ...message, role: "assistant" },
          ...beside,
        },
      ],
    },
    billed,
    reported,
  );
  return JSON.parse(text) as JsonFields;
}
