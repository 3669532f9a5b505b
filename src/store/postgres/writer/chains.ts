import { assert } from "../../../lib/assert.ts";
import type { ChainEffect, ReserveTarget } from "../../writer/effects.ts";
import type { WireRecord } from "../../writer/requestRecord.ts";
import type { Row } from "./session.ts";

/** A rotation chain while a batch runs, in nano-roubles. */
interface Chain {
  readonly accountId: number;
  readonly budget: bigint | null;
  readonly others: bigint;
  readonly reservedBefore: bigint;
  spent: bigint;
  reserved: bigint;
}

/** The rotation chains of a batch: what they spend, and the blocks that this replica has of their budgets. */
export class GroupChains {
  /** Of targets and records. */
  readonly keyIds: ReadonlySet<number>;
  /** Accounts with a chain whose target was not met because other replicas have the rest of its budget. */
  readonly wanted = new Set<number>();
  /** What the batch charges, by first key. */
  readonly charges = new Map<number, bigint>();
  readonly #chains = new Map<number, Chain>();

  constructor(targets: readonly ReserveTarget[], records: readonly WireRecord[]) {
    this.keyIds = new Set([
      ...targets.flatMap(({ chains = [] }) => chains.map(({ firstKeyId }) => firstKeyId)),
      ...records.map(({ firstKeyId }) => firstKeyId),
    ]);
  }

  /** `blocks`: those of the accounts of the batch. */
  read(keys: readonly Row[], blocks: readonly Row[]): void {
    const byKey = new Map(blocks.map((row) => [Number(row["key_id"]), row]));
    for (const row of keys) {
      const id = Number(row["id"]);
      if (!this.keyIds.has(id)) continue;
      const reserved = (byKey.get(id)?.["own"] ?? 0n) as bigint;
      this.#chains.set(id, {
        accountId: Number(row["account_id"]),
        budget: row["budget"] as bigint | null,
        spent: row["spent"] as bigint,
        others: (byKey.get(id)?.["others"] ?? 0n) as bigint,
        reservedBefore: reserved,
        reserved,
      });
    }
  }

  /** Charges spend the block first. A request may exceed its budget, so the block may be smaller than the charge. */
  settle(
    charged: ReadonlyMap<number, { readonly charged: bigint }>,
    targets: readonly ReserveTarget[],
    onlyRaise: boolean,
  ): void {
    for (const [id, { charged: amount }] of charged) {
      const chain = this.#chains.get(id);
      assert(chain !== undefined, "a request without a key");
      chain.spent += amount;
      chain.reserved = max(chain.reserved - amount, 0n);
      this.charges.set(id, amount);
    }
    for (const { chains = [] } of targets)
      for (const { firstKeyId, reserved } of chains)
        this.#reserve(firstKeyId, BigInt(reserved), onlyRaise);
  }

  #reserve(firstKeyId: number, target: bigint, onlyRaise: boolean): void {
    const chain = this.#chains.get(firstKeyId);
    assert(chain !== undefined, "a target without a key");
    const payable = lesser(target, mostOf(chain));
    if (!onlyRaise || payable > chain.reserved) chain.reserved = payable;
    if (chain.budget !== null && payable < target && chain.others > 0n)
      this.wanted.add(chain.accountId);
  }

  changedBlocks(): readonly { account_id: number; key_id: number; amount: string }[] {
    return [...this.#chains]
      .filter(([, { reserved, reservedBefore }]) => reserved !== reservedBefore)
      .map(([id, { accountId, reserved }]) => {
        return { account_id: accountId, key_id: id, amount: String(reserved) };
      });
  }

  effects(): readonly ChainEffect[] {
    return [...this.#chains].map(([firstKeyId, chain]) => ({
      accountId: chain.accountId,
      firstKeyId,
      spent: String(chain.spent),
      budget: chain.budget === null ? null : String(chain.budget),
      reserved: String(chain.reserved),
      others: String(chain.others),
    }));
  }
}

/**
 * The most that may be reserved. A command may have removed the budget, or lowered it below what requests hold: what is
 * reserved already may stay then, so that no other replica reserves it after the budget is raised again.
 */
function mostOf({ budget, spent, others, reserved }: Chain): bigint {
  return budget === null ? 0n : max(budget - spent - others, reserved);
}

function lesser(one: bigint, other: bigint): bigint {
  return one < other ? one : other;
}

function max(one: bigint, other: bigint): bigint {
  return one > other ? one : other;
}
