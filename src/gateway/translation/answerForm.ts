import type { ChatChunk, UnbilledCompletion } from "../../contract/chat/chatAnswer.ts";
import type { StreamFailure } from "../../contract/errors.ts";
import type { Usage } from "../../contract/usage.ts";

/**
 * The form in which a client gets the answer to a chat: that of the interface that the client uses. Each answer has its
 * own. It lives as long as the stream, so it must not retain the request's body (memory rules: docs/contribute/architecture.md).
 * The methods throw AnswerError for an answer that cannot be written.
 */
export interface AnswerForm {
  /** Chunks of one text differ in nothing but the text, so a chunk may be made from a template. */
  readonly isPlain: boolean;
  /** The JSON answer. `billed` is what is charged; `reported` is the provider's own usage, for its details. */
  completion(completion: UnbilledCompletion, billed: Usage, reported: unknown): string;
  /**
   * Of a stream: the events for a chunk whose choices have no finish reason; empty if the client sees nothing of it.
   * `reported` is what the provider has reported so far of its usage.
   */
  chunk(chunk: ChatChunk, reported: Usage | undefined): string;
  /**
   * Of a stream: the end of the answer, which is sent after its charge is committed. `held` are the chunks with a finish
   * reason. If the form is plain, they may have content too; otherwise `chunk` got it before, because it may throw.
   */
  ending(held: readonly ChatChunk[], billed: Usage, reported: unknown): string;
  /** Of a stream: the end if the provider failed, or if no provider began to answer. */
  failure(error: StreamFailure): string;
}
