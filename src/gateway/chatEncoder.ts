import type { ChatRequest } from "../contract/chat.ts";
import { invalidRequest } from "../contract/errors.ts";
import type { JsonObjectText } from "../lib/json.ts";
import { UnfitError, type ChatCall, type EncodedRequest } from "../providers/provider.ts";
import type { Candidate } from "../routing/order.ts";

/** The bounds of each choice's tokens. */
type Bounds = Pick<ChatCall, "outputTokensBound" | "outputTokensMax">;

interface Written {
  readonly candidate: Candidate;
  readonly outputTokensMax: number;
  readonly encoded: EncodedRequest;
}

/**
 * One chat in the words of its model's routes. Whether any of them has words for it is asked before money is held, and
 * what that wrote is sent: no chat is written twice for it, unless money shrinks its bound or another route is drawn.
 */
export class ChatEncoder {
  readonly #request: ChatRequest;
  readonly #object: JsonObjectText;
  /** It may be as large as the body: whoever sends it takes it away. */
  #written: Written | undefined;

  constructor(request: ChatRequest, object: JsonObjectText) {
    this.#request = request;
    this.#object = object;
  }

  /** Throws ApiError 400 where no candidate has words for it, whoever else could answer now. */
  refuseUnfit(candidates: readonly Candidate[], bounds: Bounds): void {
    if (candidates.some(({ chat }) => chat.takesAll)) return;
    let first: UnfitError | undefined;
    for (const candidate of candidates) {
      try {
        const encoded = this.#write(candidate, bounds);
        this.#written = { candidate, outputTokensMax: bounds.outputTokensMax, encoded };
        return;
      } catch (error) {
        if (!(error instanceof UnfitError)) throw error;
        first ??= error;
      }
    }
    if (first) throw invalidRequest(first.message);
  }

  /** Throws UnfitError. */
  encode(candidate: Candidate, bounds: Bounds): EncodedRequest {
    const written = this.#written;
    this.#written = undefined;
    const isSame =
      written?.candidate === candidate && written.outputTokensMax === bounds.outputTokensMax;
    return isSame ? written.encoded : this.#write(candidate, bounds);
  }

  #write(candidate: Candidate, { outputTokensBound, outputTokensMax }: Bounds): EncodedRequest {
    const { provider, route, chat } = candidate;
    return chat.encode({
      request: this.#request,
      object: this.#object,
      model: route.model,
      outputTokensBound,
      outputTokensMax,
      habits: provider.config,
    });
  }
}
