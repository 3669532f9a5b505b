import { newKey } from "../../administration/keys.ts";
import type { Config } from "../../config/schema.ts";
import type { CreatedVoucherDocument } from "../../contract/operator/voucher.ts";
import { assert } from "../../lib/assert.ts";
import { DAY_MS } from "../../lib/clock.ts";
import { NANO_ROUBLES_MAX } from "../../lib/money.ts";
import {
  amountToWire,
  type KeyRow,
  type RequestRecord,
  type SqliteStore,
  type Writer,
} from "../../store/store.ts";
import { DEMO_ACCOUNT, DEMO_KEY, type Customer, type CustomerKey } from "./customers.ts";
import type { DrawnRequest } from "./traffic.ts";

/** Who creates accounts, keys and refunds, in ledger and admin log. */
export const OPERATOR = "olga";

/** What happens at one time: a request ends, or a command changes something. */
export type Step =
  | { readonly at: number; readonly request: DrawnRequest }
  | { readonly at: number; readonly change: (recording: Recording) => Promise<void> | void };

/** Performs steps in their order. */
export class Recording {
  demoSecret = "";
  /** A voucher that no account has redeemed. */
  openVoucher: CreatedVoucherDocument | undefined;
  readonly config: Config;
  readonly store: SqliteStore;
  readonly #writer: Writer;
  /** The current key by account and label. */
  readonly #keys = new Map<string, KeyRow>();
  readonly #lastUse = new Map<number, { readonly accountId: number; readonly at: number }>();
  readonly #accountIds: number[] = [];
  #reserve = NANO_ROUBLES_MAX;

  constructor(config: Config, store: SqliteStore, writer: Writer) {
    this.config = config;
    this.store = store;
    this.#writer = writer;
    // A charge is refused unless its account has reserved it. Nothing else spends here, so all money is reserved.
    writer.planner = {
      planBatch: () =>
        this.#accountIds.map((accountId) => ({
          accountId,
          reserved: amountToWire(this.#reserve),
        })),
      batchEnded: () => undefined,
    };
  }

  async run(steps: readonly Step[]): Promise<void> {
    let ended: DrawnRequest[] = [];
    for (const step of steps) {
      if ("request" in step) {
        ended.push(step.request);
        continue;
      }
      // A change follows in the ledger what ended before it.
      await this.#write(ended);
      ended = [];
      await step.change(this);
    }
    await this.#write(ended);
    await this.#end();
  }

  createAccount(account: string, overdraft: bigint, at: number): void {
    const { id } = this.store.admin.createAccount({ name: OPERATOR, at }, account, overdraft);
    this.#accountIds.push(id);
  }

  createKey(
    customer: Customer,
    key: CustomerKey,
    { at, expiresAt, budget }: { at: number; expiresAt: number | null; budget: bigint | null },
  ): void {
    const { secret, stored } = newKey();
    const { label, models, requestsPerMinute } = key;
    const { key: row } = this.store.admin.createKey({ name: OPERATOR, at }, customer.account, {
      ...stored,
      createdAt: at,
      label,
      models,
      requestsPerMinute,
      expiresAt,
      budget,
    });
    this.#keys.set(keyName(customer, key), row);
    if (customer.account === DEMO_ACCOUNT && label === DEMO_KEY) this.demoSecret = secret;
  }

  rotateKey(customer: Customer, key: CustomerKey, at: number): void {
    const rotation = { successor: newKey().stored, graceMs: DAY_MS };
    const { publicId } = this.keyOf(customer, key);
    const rotated = this.store.admin.rotateKey({ name: OPERATOR, at }, publicId, rotation);
    this.#keys.set(keyName(customer, key), rotated.key);
  }

  /** By any key of the account. */
  async redeem(voucher: string, account: string, at: number): Promise<void> {
    const { id: accountId } = this.store.accounts.findOrThrow(account);
    const [key] = this.store.keys.list(account);
    const { id: voucherId } = this.store.vouchers.findOrThrow(voucher);
    const redemption = { voucherId, accountId, actor: key?.publicId ?? OPERATOR, at };
    await this.#writer.write({ kind: "redeemVoucher", redemption });
  }

  keyOf(customer: Customer, key: CustomerKey): KeyRow {
    const row = this.#keys.get(keyName(customer, key));
    assert(row !== undefined, "a key is used before it is created");
    return row;
  }

  async #write(ended: readonly DrawnRequest[]): Promise<void> {
    if (ended.length === 0) return;
    await this.#writer.write({ kind: "reserve" });
    await Promise.all(
      ended.map((request) =>
        this.#writer.write({ kind: "recordRequest", record: this.#recordOf(request) }),
      ),
    );
  }

  #recordOf({ customer, key, record }: DrawnRequest): RequestRecord {
    const { id, accountId, firstKeyId } = this.keyOf(customer, key);
    this.#lastUse.set(id, { accountId, at: record.at });
    return { ...record, accountId, keyId: id, firstKeyId };
  }

  async #end(): Promise<void> {
    this.#reserve = 0n;
    const touched = [...this.#lastUse].map(([keyId, use]) =>
      this.#writer.write({ kind: "touchKey", keyId, ...use, address: null }),
    );
    await Promise.all([...touched, this.#writer.write({ kind: "reserve" })]);
  }
}

function keyName({ account }: Customer, { label }: CustomerKey): string {
  return `${account} ${label}`;
}
