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
   * Undefined while the account's block covers the hold: no other process can take the money. A hold that extends another
   * one may wait for that. It rejects with WriteError if no money is free, if the database cannot be written, or if the
   * lease of the replica is lost; then release the hold. Nothing may reach the client before.
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
