import {
  DONE,
  failureChunk,
  type ChatChunk,
  type UnbilledCompletion,
} from "../../contract/chat/chatAnswer.ts";
import type { StreamFailure } from "../../contract/errors.ts";
import type { Usage } from "../../contract/usage.ts";
import { answerText } from "../../providers/provider.ts";
import type { AnswerForm } from "../translation/answerForm.ts";
import { publicUsage, visibleChunk, withUsage, type AnswerIdentity } from "./publicAnswer.ts";

/** The form of POST /v1/chat/completions: a completion, or chunks and `[DONE]`. */
export class ChatForm implements AnswerForm {
  readonly isPlain = true;
  readonly #identity: AnswerIdentity;
  readonly #includeUsage: boolean;

  /** `includeUsage`: the client asks for the usage in a stream. */
  constructor(identity: AnswerIdentity, includeUsage: boolean) {
    this.#identity = identity;
    this.#includeUsage = includeUsage;
  }

  completion(completion: UnbilledCompletion, billed: Usage, reported: unknown): string {
    return answerText({ ...completion, usage: publicUsage(billed, reported, this.#identity) });
  }

  chunk(chunk: ChatChunk): string {
    const visible = chunk.choices.length > 0 ? visibleChunk(chunk, this.#identity) : undefined;
    return visible ? eventOf(visible) : "";
  }

  ending(held: readonly ChatChunk[], billed: Usage, reported: unknown): string {
    const visible = held.flatMap((chunk) => visibleChunk(chunk, this.#identity) ?? []);
    const last = visible.pop();
    if (last && this.#includeUsage) {
      visible.push(...withUsage(last, billed, reported, this.#identity));
    } else if (last) visible.push(last);
    return `${visible.map(eventOf).join("")}data: ${DONE}\n\n`;
  }

  failure(error: StreamFailure): string {
    const alone = `data: ${answerText({ error })}\n\n`;
    return `${eventOf(failureChunk(this.#identity, error))}${alone}data: ${DONE}\n\n`;
  }
}

function eventOf(chunk: ChatChunk): string {
  return `data: ${answerText(chunk)}\n\n`;
}
