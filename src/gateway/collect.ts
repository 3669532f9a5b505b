import { UpstreamError, type UpstreamExchange } from "../providers/upstream.ts";
import type { Gateway } from "./gateway.ts";
import { clientGone } from "./readFailure.ts";

/** The largest JSON answer that a provider may give. */
const JSON_BYTES_MAX = 32 * 1024 * 1024;
/** So many JSON answers at once are read to their end after their client went away. */
const DETACHED_MAX = 256;

const utf8 = new TextDecoder("utf-8", { fatal: true });

/**
 * The whole text of a JSON answer. Throws UpstreamError where it is cut, too large or not UTF-8. How large it is the
 * caller can choose, by asking for all that is known of each token: that says nothing of the provider.
 */
export async function collectText(exchange: UpstreamExchange): Promise<string> {
  await exchange.head;
  const pieces: Uint8Array[] = [];
  let length = 0;
  for (let piece = await exchange.read(); piece; piece = await exchange.read()) {
    length += piece.byteLength;
    if (length > JSON_BYTES_MAX) throw new UpstreamError("misfire", "too large");
    pieces.push(piece);
  }
  const [only] = pieces;
  try {
    return utf8.decode(pieces.length === 1 && only ? only : Buffer.concat(pieces, length));
  } catch (cause) {
    throw new UpstreamError("provider", "answer", { cause });
  }
}

/** What becomes of a JSON answer whose client went away: it is read on, unless too many are already. */
export interface Detachment {
  /** The client is gone. */
  readonly isGone: boolean;
  /** The provider was given up, because no place was left. */
  readonly isGivenUp: boolean;
  /** Some provider may have the request: the exchange that is watched was sent. */
  readonly isSent: boolean;
  /** The exchange that is to end if no place is left. */
  watch(exchange: UpstreamExchange): void;
  /** The request is over. */
  end(): void;
}

export function watchClient(gateway: Gateway, signal: AbortSignal): Detachment {
  const { detached } = gateway;
  let exchange: UpstreamExchange | undefined;
  let isDetached = false;
  let isGivenUp = false;
  let isOver = false;
  const leave = (): void => {
    // The listener stays: to take it away would cost as much as to put it there.
    if (isOver) return;
    if (detached.count < DETACHED_MAX) {
      isDetached = true;
      detached.count += 1;
      return;
    }
    isGivenUp = true;
    exchange?.abort(clientGone());
  };
  // A signal that has fired already tells nobody any more.
  if (signal.aborted) leave();
  else signal.addEventListener("abort", leave, { once: true });
  return {
    get isGone() {
      return signal.aborted;
    },
    get isGivenUp() {
      return isGivenUp;
    },
    get isSent() {
      return exchange?.isSent ?? false;
    },
    watch(next) {
      exchange = next;
      if (isGivenUp) next.abort(clientGone());
    },
    end() {
      isOver = true;
      if (isDetached) detached.count -= 1;
      isDetached = false;
    },
  };
}
