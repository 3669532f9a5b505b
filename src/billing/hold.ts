import type { AmountRange } from "./cost.ts";

/**
 * Why money could not be held. `insufficient`: it does not fit even when all other open requests of the account
 * turn out to be free. `busy`: it fits once enough of them have ended.
 */
export interface HoldRefusal {
  readonly ok: false;
  readonly reason: "insufficient" | "busy";
  /** The least that the request needs, in nano-roubles. */
  readonly required: bigint;
  /** What it could have had at the moment of the decision, in nano-roubles; 0 or more. */
  readonly available: bigint;
}

export type HoldResult = { ok: true; hold: Hold } | HoldRefusal;

/** Money that is set aside for one open request, in nano-roubles. */
export interface Hold {
  readonly amount: bigint;
  /**
   * Undefined once the account's reserve in the database covers the hold: no other process can take the money. Until
   * then a promise of that. It rejects with WriteError if a command took the money first, or if the database cannot be
   * written; then release the hold. Nothing may reach the client before.
   */
  readonly secured: Promise<void> | undefined;
  /**
   * Holds up to `extra` more for the same request, as far as no other request holds the money. Undefined if there is
   * none. It does not change `amount`. The `amount` of the new hold is final once it is secured.
   */
  extend(extra: bigint): Hold | undefined;
  /** Releases a hold whose request will not be recorded. A second call is a bug and throws. */
  release(): void;
}

/** The request that money is held for. */
export interface HoldOwner {
  readonly accountId: number;
  /** The key with the budget: the first key of the rotation chain. */
  readonly keyId: number;
  readonly requestId: string;
}

/** How long a request waits for money that other requests hold. */
export interface HoldWait {
  readonly waitMs: number;
  /** Aborted when the client disconnects. Nothing is held then. */
  readonly signal: Pick<AbortSignal, "aborted">;
}

/**
 * Owns every decision about money while the gateway serves. It adds each hold in the same turn of the event loop as it
 * decides, so no two requests share money.
 */
export interface Holds {
  /**
   * Holds as much of the range as the account and the key's budget can pay. Waits up to `hold_wait` for money that other
   * requests hold. Requests are served in the order of arrival. A request that needs less may pass one that needs more, and
   * a new request may pass those that wait if money has become free since they were last checked. Rejects with what the
   * gateway refuses requests with, and if the database cannot be read.
   */
  takeOrWait(
    holdWait: HoldWait,
    owner: HoldOwner,
    range: AmountRange,
  ): HoldResult | Promise<HoldResult>;
  /**
   * The refusal of a request that needs at least `required`, if the account and the key's budget cannot pay that. It holds
   * nothing and asks nobody, so that it can come before a body is read. Undefined: `takeOrWait` decides.
   */
  refusalOf(owner: Omit<HoldOwner, "requestId">, required: bigint): HoldRefusal | undefined;
  /** A redeemed voucher has credited the account. `refusalOf` knows it from the next request on. */
  credited(accountId: number): void;
  /** The sum of all open holds, in nano-roubles; 0 at rest. */
  total(): bigint;
  /** Lowers every reserve to what is held, with the last batch. The gateway stops. */
  close(): void;
}
