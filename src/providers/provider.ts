import type { ChatRequest } from "../contract/chat.ts";
import type { Usage } from "../contract/usage.ts";
import type { JsonObjectText } from "../lib/json.ts";

/** A chat request on its way to one route. */
export interface ChatCall {
  readonly request: ChatRequest;
  /** The client's own text, where its members stand. */
  readonly object: JsonObjectText;
  /** The provider's name for the model. */
  readonly model: string;
  /** The bound of each choice's tokens to send; undefined sends none. */
  readonly outputTokensBound: number | undefined;
  /** The name under which the provider takes the bound. */
  readonly maxTokensField: string;
}

/** What is posted: `path` is appended to the provider's base URL. */
export interface EncodedRequest {
  readonly path: string;
  readonly body: string;
}

/**
 * The common language between adapters and the gateway: the public contract's own chat completion
 * (or chunk), unknown fields kept, not yet checked. Unknown usage is undefined, which is not zero.
 */
export interface ChatReply {
  readonly completion: Readonly<Record<string, unknown>>;
  readonly usage: Usage | undefined;
}

/** One event of a chat stream; `done` is the interface's own terminator. */
export type ChatEvent =
  | {
      readonly kind: "chunk";
      readonly chunk: Readonly<Record<string, unknown>>;
      readonly usage: Usage | undefined;
    }
  | { readonly kind: "done" }
  | { readonly kind: "nothing" };

/** Reads the events of one stream in their order. Throws AnswerError for what the interface does not promise. */
export type ReadChatEvent = (event: { event: string | undefined; data: string }) => ChatEvent;

/** The answer of a provider is not what its interface promises: an error where an answer belongs, or nonsense. */
export class AnswerError extends Error {
  override readonly name = "AnswerError";
}

/** How one kind of provider is spoken to. Pure: it turns text into text and does no I/O. */
export interface ProviderAdapter {
  /** Headers that carry the credential. */
  credential(apiKey: string): Readonly<Record<string, string>>;
  encodeChat(call: ChatCall): EncodedRequest;
  /** Throws AnswerError. */
  readChat(text: string): ChatReply;
  /** Starts reading one stream. */
  chatEvents(): ReadChatEvent;
  /** The native responses interface, which is passed through; undefined for kinds without it. */
  readonly responses: { encode(object: JsonObjectText, model: string): EncodedRequest } | undefined;
}
