import { upstreamFailure } from "../../src/contract/errors.ts";
import { noUsage, type Usage } from "../../src/contract/usage.ts";
import type { AnswerDecoder } from "../../src/gateway/decoding/answerDecoder.ts";
import { ChatDecoder } from "../../src/gateway/decoding/chatDecoder.ts";
import { ChatForm } from "../../src/gateway/decoding/chatForm.ts";
import { MessagesDecoder } from "../../src/gateway/decoding/messagesDecoder.ts";
import type { AnswerIdentity } from "../../src/gateway/decoding/publicAnswer.ts";
import { ResponsesDecoder } from "../../src/gateway/decoding/responsesDecoder.ts";
import type { AnswerForm } from "../../src/gateway/translation/answerForm.ts";
import { MessagesForm } from "../../src/gateway/translation/messages/chatToMessages.ts";
import { ResponsesForm } from "../../src/gateway/translation/responses/chatToResponses.ts";
import { settingsOf } from "../../src/gateway/translation/responses/responsesSettings.ts";
import { AnswerError } from "../../src/providers/provider.ts";
import type { Cell } from "./cells.ts";

const identity: AnswerIdentity = {
  id: "chatcmpl-0123",
  model: "asked-for",
  created: 1_700_000_000,
  unknownFields: "forward",
};
const message = { requestId: "req_0123", model: "asked-for", promptEstimate: 12 };

const forms: Readonly<Record<Cell["speaker"]["endpoint"], () => AnswerForm>> = {
  chat: () => new ChatForm(identity, true),
  messages: () => new MessagesForm(message),
  responses: () =>
    new ResponsesForm({ ...identity, id: "resp_0123" }, settingsOf({ store: false })),
};

/** The decoder that the gateway uses in a cell. */
function decoderOf({ speaker: { endpoint }, service, dialect }: Cell): AnswerDecoder {
  if (service === "native" && endpoint === "messages")
    return new MessagesDecoder(() => forms.messages().failure(upstreamFailure));
  if (service === "native" && endpoint === "responses") return new ResponsesDecoder();
  return new ChatDecoder({
    readEvent: dialect.chat.events(),
    identity,
    choiceCount: 1,
    form: forms[endpoint](),
    eventsStandAlone: dialect.chat.eventsStandAlone,
  });
}

/** What a client gets. `beforeContent`: nothing, because the stream ends before any content, and another route answers. */
export type Decoded =
  | { readonly kind: "whole"; readonly text: string; readonly usage: Usage | undefined }
  | { readonly kind: "failed"; readonly text: string }
  | { readonly kind: "beforeContent" };

/** What a client of a cell gets of a stream that comes in these reads and then ends. */
export function decode(cell: Cell, ...reads: readonly Uint8Array[]): Decoded {
  const decoder = decoderOf(cell);
  const sent: (string | Uint8Array)[] = [];
  const take = (): void => {
    const output = decoder.take();
    if (output !== undefined) sent.push(output);
  };
  try {
    for (const bytes of reads) {
      decoder.push(bytes);
      take();
    }
    if (!decoder.isClosed) decoder.end();
    take();
  } catch (error) {
    if (!(error instanceof AnswerError)) throw error;
  }
  const { isFinished, hasContent, usage } = decoder;
  if (!isFinished && !hasContent) return { kind: "beforeContent" };
  sent.push(isFinished ? decoder.ending(usage ?? noUsage) : decoder.failure(upstreamFailure));
  const bytes = sent.map((one) => (typeof one === "string" ? Buffer.from(one) : one));
  const text = Buffer.concat(bytes).toString();
  return isFinished ? { kind: "whole", text, usage } : { kind: "failed", text };
}
