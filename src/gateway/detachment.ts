import type { UpstreamExchange } from "../providers/upstream.ts";
import type { Gateway } from "./gateway.ts";
import { clientGone } from "./readFailure.ts";

/** So many JSON answers at once are read to their end after their client went away. */
const DETACHED_MAX = 256;

/** What becomes of a JSON answer whose client went away: it is read on, unless too many are already. */
export interface Detachment {
  /** The provider was given up, because no place was left. */
  readonly isGivenUp: boolean;
  /** Some provider may have the request: the exchange in use was sent, or the one that was given up amid its use. */
  readonly isSent: boolean;
  /** The exchange that is to end if no place is left. */
  useExchange(exchange: UpstreamExchange): void;
  /** The exchange in use has ended: a provider that failed before its client left is paid nothing. */
  leaveExchange(): void;
  /** The request is over. */
  end(): void;
}

export function watchClient(gateway: Gateway, signal: AbortSignal): Detachment {
  const { traffic } = gateway;
  let exchange: UpstreamExchange | undefined;
  let isDetached = false;
  let isGivenUp = false;
  let isOver = false;
  const leave = (): void => {
    // The listener stays: to take it away would cost as much as to put it there.
    if (isOver) return;
    if (traffic.detachedCount < DETACHED_MAX) {
      isDetached = true;
      traffic.detachedCount += 1;
      return;
    }
    isGivenUp = true;
    exchange?.abort(clientGone());
  };
  // A signal that has fired already tells nobody any more.
  if (signal.aborted) leave();
  else signal.addEventListener("abort", leave, { once: true });
  return {
    get isGivenUp() {
      return isGivenUp;
    },
    get isSent() {
      return exchange?.isSent ?? false;
    },
    useExchange(next) {
      exchange = next;
      if (isGivenUp) next.abort(clientGone());
    },
    leaveExchange() {
      if (!isGivenUp) exchange = undefined;
    },
    end() {
      isOver = true;
      if (isDetached) traffic.detachedCount -= 1;
    },
  };
}
