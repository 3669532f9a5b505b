import { newKey } from "../../administration/keys.ts";
import { createVouchers } from "../../administration/vouchers.ts";
import type { Config } from "../../config/schema.ts";
import type { CreatedVoucherDocument } from "../../contract/operator/voucher.ts";
import { assert } from "../../lib/assert.ts";
import { DAY_MS } from "../../lib/clock.ts";
import { greaterOf, lesserOf, NANO_ROUBLES_MAX, NANO_ROUBLES_PER_ROUBLE } from "../../lib/money.ts";
import type { Random } from "../../lib/random.ts";
import { openStore, startWriter, type SqliteStore } from "../../store/open.ts";
import {
  amountToWire,
  type Actor,
  type KeyRow,
  type RequestRecord,
  type Writer,
} from "../../store/store.ts";
import { CUSTOMERS, DEMO_ACCOUNT, DEMO_KEY, type Customer, type CustomerKey } from "./customers.ts";
import { DAYS, HOUR_MS, Traffic, type DrawnRequest } from "./traffic.ts";

/** The month that was written. */
export interface Month {
  /** The secret of the key of the account `demo`. */
  readonly key: string;
  /** A voucher to redeem. */
  readonly voucher: CreatedVoucherDocument | undefined;
  readonly requests: number;
}

/** The seed of the month. Another number draws another month. */
const SEED = 20_261_124;
/** Who makes credits, in the ledger and the admin log. */
const BILLING = "billing";
/** Who makes all other changes. */
const OPERATOR = "olga";

/** A command of the month. */
interface Event {
  /** Days before the end of the month. */
  readonly daysAgo: number;
  readonly run: (recording: Recording, at: number) => Promise<void>;
}

const TRIAL = "trial";
const CONFERENCE = "conference in November";

const EVENTS: readonly Event[] = [
  ...CUSTOMERS.flatMap(creations),
  { daysAgo: 28, run: (month, at) => month.createVouchers(TRIAL, 25, 4, { at, days: 21 }) },
  { daysAgo: 27, run: (month, at) => month.redeem(TRIAL, DEMO_ACCOUNT, at) },
  { daysAgo: 25, run: (month, at) => month.redeem(TRIAL, "content-studio", at) },
  { daysAgo: 24, run: (month, at) => month.refund("support-desk", "all", at) },
  { daysAgo: 19, run: (month, at) => month.refund("translate.bureau", "all", at) },
  { daysAgo: 13, run: (month, at) => month.revokeKey("support-desk", "staging", at) },
  { daysAgo: 13, run: (month, at) => month.createVouchers(CONFERENCE, 100, 8, { at, days: 73 }) },
  { daysAgo: 12, run: (month, at) => month.redeem(CONFERENCE, "support-desk", at) },
  { daysAgo: 12, run: (month, at) => month.rotateKey(DEMO_ACCOUNT, "laptop", at) },
  { daysAgo: 10, run: (month, at) => month.redeem(CONFERENCE, DEMO_ACCOUNT, at) },
  { daysAgo: 9, run: (month, at) => month.disable("old-partner", at) },
  { daysAgo: 8, run: (month, at) => month.refund(DEMO_ACCOUNT, "all", at) },
  { daysAgo: 6, run: (month, at) => month.revokeVoucher(CONFERENCE, at) },
  { daysAgo: 5, run: (month, at) => month.refund("content-studio", "all", at) },
  { daysAgo: 3, run: (month, at) => month.redeem(CONFERENCE, "search-team", at) },
  { daysAgo: 2, run: (month, at) => month.refund("support-desk", "half", at) },
  { daysAgo: 1, run: (month, at) => month.refund(DEMO_ACCOUNT, "half", at) },
];

function creations(customer: Customer): Event[] {
  const { sinceDaysAgo, keys } = customer;
  return [
    { daysAgo: sinceDaysAgo, run: (month, at) => month.createAccount(customer, at) },
    ...keys.map((key): Event => {
      const { createdDaysAgo = sinceDaysAgo } = key;
      return { daysAgo: createdDaysAgo, run: (month, at) => month.createKey(customer, key, at) };
    }),
  ];
}

/**
 * Writes 30 days of use into the database of a config whose gateway does not run yet: accounts, keys, credits, vouchers,
 * refunds and requests, by the same code as commands and gateway write them. Throws StoreError.
 */
export async function fillMonth(config: Config, until: number): Promise<Month> {
  const { database } = config;
  assert(database.engine === "sqlite", "the config of the demo has a file");
  const { path } = database;
  // The folder is removed at the end, so nothing has to survive a power cut.
  const store = openStore({ path, durability: "process", serving: false });
  const broken = Promise.withResolvers<never>();
  const writer = startWriter({ path, durability: "process" }, (message) =>
    broken.reject(new Error(`the database failed: ${message}`)),
  );
  try {
    const recording = new Recording(config, store, writer);
    return await Promise.race([recording.fill(until), broken.promise]);
  } finally {
    await writer.close();
    await store.close();
  }
}

interface AccountState {
  readonly id: number;
  readonly customer: Customer;
  readonly keys: Map<string, KeyState>;
  /** Without vouchers and refunds: at most what the account has. */
  balance: bigint;
  credits: number;
  /** The most expensive whole answer that was not refunded. */
  dearest: RequestRecord | undefined;
  isDisabled: boolean;
}

interface KeyState {
  readonly key: CustomerKey;
  row: KeyRow;
  isRevoked: boolean;
  spent: bigint;
  lastUseAt: number | undefined;
}

/** Draws the month and writes it, day by day. */
class Recording {
  readonly #config: Config;
  readonly #store: SqliteStore;
  readonly #writer: Writer;
  readonly #accounts = new Map<string, AccountState>();
  /** Codes that nobody has redeemed, by their note. */
  readonly #vouchers = new Map<string, CreatedVoucherDocument[]>();
  #demoSecret = "";
  #reserve = NANO_ROUBLES_MAX;

  constructor(config: Config, store: SqliteStore, writer: Writer) {
    this.#config = config;
    this.#store = store;
    this.#writer = writer;
    // A charge is refused unless its account has reserved it. Nothing else spends here, so all money is reserved.
    writer.planner = {
      planBatch: () =>
        [...this.#accounts.values()].map(({ id: accountId }) => ({
          accountId,
          reserved: amountToWire(this.#reserve),
        })),
      batchEnded: () => undefined,
    };
  }

  async fill(until: number): Promise<Month> {
    const traffic = new Traffic(this.#config.models, until, seededRandom(SEED));
    const events = EVENTS.toSorted((one, other) => other.daysAgo - one.daysAgo);
    let open: DrawnRequest[] = [];
    let requests = 0;
    for (let daysAgo = DAYS; daysAgo > 0; daysAgo -= 1) {
      const from = until - daysAgo * DAY_MS;
      while (events[0] !== undefined && events[0].daysAgo >= daysAgo) {
        const event = events.shift();
        await event?.run(this, until - event.daysAgo * DAY_MS);
      }
      const to = from + DAY_MS;
      for (let hour = from; hour < to; hour += HOUR_MS)
        for (const { customer, keys, isDisabled } of this.#accounts.values()) {
          const usable = [...keys.values()].filter(({ isRevoked }) => !isRevoked && !isDisabled);
          const drawn = usable.map(({ key }) => key);
          open.push(...traffic.hour(customer, drawn, hour));
        }
      const ended = open.filter(({ endsAt }) => endsAt < to);
      open = open.filter(({ endsAt }) => endsAt >= to);
      requests += await this.#write(ended, from);
    }
    await this.#end();
    return { key: this.#demoSecret, voucher: this.#vouchers.get(CONFERENCE)?.[0], requests };
  }

  async createAccount(customer: Customer, at: number): Promise<void> {
    const { account, overdraft = 0 } = customer;
    const row = await this.#store.admin.createAccount(
      by("accounts create", at),
      account,
      roubles(overdraft),
    );
    this.#accounts.set(account, {
      id: row.id,
      customer,
      keys: new Map(),
      balance: 0n,
      credits: 0,
      dearest: undefined,
      isDisabled: false,
    });
  }

  async createKey({ account }: Customer, key: CustomerKey, at: number): Promise<void> {
    const { secret, stored } = newKey();
    const { label, models, requestsPerMinute, expiresAfterDays, budget } = key;
    const { key: row } = await this.#store.admin.createKey(by("keys create", at), account, {
      ...stored,
      createdAt: at,
      label,
      models,
      requestsPerMinute,
      expiresAt: expiresAfterDays === undefined ? null : at + expiresAfterDays * DAY_MS,
      budget: budget === undefined ? null : roubles(budget),
    });
    const state = { key, row, isRevoked: false, spent: 0n, lastUseAt: undefined };
    this.#account(account).keys.set(label, state);
    if (account === DEMO_ACCOUNT && label === DEMO_KEY) this.#demoSecret = secret;
  }

  async rotateKey(account: string, label: string, at: number): Promise<void> {
    const state = this.#key(account, label);
    const rotation = { successor: newKey().stored, graceMs: DAY_MS };
    state.row = (
      await this.#store.admin.rotateKey(by("keys rotate", at), state.row.publicId, rotation)
    ).key;
  }

  async revokeKey(account: string, label: string, at: number): Promise<void> {
    const state = this.#key(account, label);
    await this.#store.admin.revokeKey(by("keys revoke", at), state.row.publicId);
    state.isRevoked = true;
  }

  async disable(account: string, at: number): Promise<void> {
    await this.#store.admin.setDisabled(by("accounts disable", at), account, true);
    this.#account(account).isDisabled = true;
  }

  async createVouchers(
    note: string,
    amount: number,
    count: number,
    { at, days }: { at: number; days: number },
  ): Promise<void> {
    const session = { config: this.#config, store: this.#store, actor: by("vouchers create", at) };
    const order = { amount: roubles(amount), count, note, expiresAt: at + days * DAY_MS };
    this.#vouchers.set(note, await createVouchers(session, order));
  }

  /** By any key of the account. */
  async redeem(note: string, account: string, at: number): Promise<void> {
    const voucher = this.#vouchers.get(note)?.shift();
    assert(voucher !== undefined, "the demo's month redeems more vouchers than it has");
    const { id: accountId, keys } = this.#account(account);
    const [key] = keys.values();
    const { id: voucherId } = await this.#store.vouchers.findOrThrow(voucher.id);
    const redemption = { voucherId, accountId, actor: key?.row.publicId ?? OPERATOR, at };
    await this.#writer.write({ kind: "redeemVoucher", redemption });
  }

  async revokeVoucher(note: string, at: number): Promise<void> {
    const voucher = this.#vouchers.get(note)?.pop();
    if (voucher) await this.#store.admin.revokeVoucher(by("vouchers revoke", at), voucher.id);
  }

  async refund(account: string, part: "all" | "half", at: number): Promise<void> {
    const state = this.#account(account);
    const { dearest } = state;
    assert(dearest !== undefined, "an account of the demo has no answer to refund");
    const amount = part === "all" ? null : dearest.charge / 2n;
    const note =
      part === "all" ? "the answer was cut off" : "half of it, as agreed with the customer";
    const refund = { request: dearest.publicId, amount, ref: null, note };
    await this.#store.admin.refund(by("balance refund", at), refund);
    state.dearest = undefined;
  }

  /** Writes what ended in a day, in the order of the ends, after the credits that pay for it. Returns how many. */
  async #write(drawn: readonly DrawnRequest[], day: number): Promise<number> {
    const ended = drawn
      .filter((request) => this.#isWithinBudget(request))
      .toSorted((one, other) => one.endsAt - other.endsAt);
    for (const [customer, requests] of Map.groupBy(ended, (one) => one.customer)) {
      const due = requests.reduce((sum, { record }) => sum + record.charge, 0n);
      await this.#payFor(this.#account(customer.account), due, day);
    }
    await this.#writer.write({ kind: "reserve" });
    const records = ended.map((request) => this.#recordOf(request));
    await Promise.all(
      records.map((record) => this.#writer.write({ kind: "recordRequest", record })),
    );
    return records.length;
  }

  /** A key whose budget is used up is refused, and a refused request has no row. */
  #isWithinBudget({ customer, key, record }: DrawnRequest): boolean {
    const state = this.#key(customer.account, key.label);
    const spent = state.spent + record.charge;
    if (key.budget !== undefined && spent > roubles(key.budget)) return false;
    state.spent = spent;
    return true;
  }

  async #payFor(account: AccountState, due: bigint, at: number): Promise<void> {
    const { payment, account: name } = account.customer;
    while (account.balance - due < roubles(payment.below)) {
      account.credits += 1;
      account.balance += roubles(payment.amount);
      const ref = payment.ref === undefined ? null : `${payment.ref}${account.credits}`;
      const { note = null } = payment;
      const amount = roubles(payment.amount);
      const credit = { account: name, kind: "credit", amount, ref, note } as const;
      await this.#store.admin.changeBalance(
        { name: BILLING, command: "balance credit", at },
        credit,
      );
    }
  }

  /** A request holds no more than its account has. */
  #recordOf({ customer, key, record: drawn }: DrawnRequest): RequestRecord {
    const account = this.#account(customer.account);
    const state = this.#key(customer.account, key.label);
    const { charge, at, status } = drawn;
    const available = account.balance + roubles(customer.overdraft ?? 0);
    const hold = greaterOf(lesserOf(drawn.hold, available), charge);
    const { id: keyId, accountId, firstKeyId } = state.row;
    const record = { ...drawn, hold, accountId, keyId, firstKeyId };
    account.balance -= charge;
    state.lastUseAt = at;
    if (status === "done" && charge > (account.dearest?.charge ?? 0n)) account.dearest = record;
    return record;
  }

  async #end(): Promise<void> {
    this.#reserve = 0n;
    const writes = [this.#writer.write({ kind: "reserve" })];
    for (const { id: accountId, keys } of this.#accounts.values())
      for (const { row, lastUseAt: at } of keys.values()) {
        const touch = { kind: "touchKey", keyId: row.id, accountId, address: null } as const;
        if (at !== undefined) writes.push(this.#writer.write({ ...touch, at }));
      }
    await Promise.all(writes);
  }

  #account(name: string): AccountState {
    const account = this.#accounts.get(name);
    assert(account !== undefined, "an account of the demo is used before it is created");
    return account;
  }

  #key(account: string, label: string): KeyState {
    const key = this.#account(account).keys.get(label);
    assert(key !== undefined, "a key of the demo is used before it is created");
    return key;
  }
}

function by(command: string, at: number): Actor {
  return { name: OPERATOR, command, at };
}

function roubles(count: number): bigint {
  return BigInt(count) * NANO_ROUBLES_PER_ROUBLE;
}

/** Mulberry32 by Tommy Ettinger, a generator of 32 bits in the public domain. Not for secrets. */
function seededRandom(seed: number): Random {
  let state = seed;
  const next = (): number => {
    state = (state + 0x6d_2b_79_f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return (mixed ^ (mixed >>> 14)) >>> 0;
  };
  return {
    bytes: (length) => Uint8Array.from({ length }, () => next() & 0xff),
    fraction: () => next() / 2 ** 32,
  };
}
