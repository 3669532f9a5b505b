import type { GroupEffect } from "./effects.ts";
import type { WriteResult } from "./writerMessages.ts";

/**
 * `full`: the disk is full; `busy`: another process has the lock; `unreachable`: the PostgreSQL server cannot be reached;
 * `locked`: another transaction on the PostgreSQL server has rows of the account; `fenced`: another replica has ended this one, and released what it had reserved; `insufficient`: the charge is larger
 * than what the account has reserved, or no money was free for more than was held; `refused`: a constraint, a trigger or an
 * assertion, such as a request that ends twice.
 */
export type WriteFailure =
  | "full"
  | "busy"
  | "unreachable"
  | "locked"
  | "fenced"
  | "insufficient"
  | "refused";

export type WriteReply =
  | { ok: true; result: WriteResult }
  | { ok: false; failure: WriteFailure; message: string };

/** The outcome of a batch. */
export interface BatchOutcome {
  /** One for each operation, in their order. */
  readonly replies: readonly WriteReply[];
  /** What was committed, in this order. Empty if nothing was. */
  readonly effects: readonly GroupEffect[];
  /** Why the reserves were not committed. */
  readonly reserveFailure?: Refused | undefined;
  /** PostgreSQL only: accounts of which nothing was committed while others of the batch were, and why. */
  readonly accountFailures?: ReadonlyMap<number, Refused>;
}

/** The reply to an operation that failed. */
export type Refused = Extract<WriteReply, { ok: false }>;

/** Only some operations of the batch are to blame. */
export function isRefusal({ failure }: Refused): boolean {
  return failure === "refused" || failure === "insufficient";
}

/**
 * The outcome of a refused batch whose operations were tried one by one. `last` raised the reserves. `refusal` is what the
 * whole batch failed with.
 */
export function outcomeOfSingles(
  refusal: Refused,
  singles: readonly (BatchOutcome | Refused)[],
  last: BatchOutcome | Refused,
): BatchOutcome {
  const tried = [...singles, last].flatMap((single) => ("effects" in single ? [single] : []));
  const failures = tried.flatMap(({ accountFailures = [] }) => [...accountFailures]);
  return {
    replies: singles.map((single) =>
      "effects" in single ? (single.replies[0] ?? refusal) : single,
    ),
    effects: tried.flatMap(({ effects }) => effects),
    reserveFailure: "effects" in last ? undefined : last,
    ...(failures.length > 0 && { accountFailures: new Map(failures) }),
  };
}

/** The outcome of a batch of which nothing was committed. */
export function outcomeOfFailure(failed: Refused, operations: number): BatchOutcome {
  return {
    replies: Array.from({ length: operations }, () => failed),
    effects: [],
    reserveFailure: failed,
  };
}
