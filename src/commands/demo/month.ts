import type { Config } from "../../config/schema.ts";
import type { CreatedVoucherDocument } from "../../contract/operator/voucher.ts";
import { assert } from "../../lib/assert.ts";
import { DAY_MS } from "../../lib/clock.ts";
import { NANO_ROUBLES_MAX, NANO_ROUBLES_PER_ROUBLE } from "../../lib/money.ts";
import type { Random } from "../../lib/random.ts";
import { openStore, startWriter } from "../../store/store.ts";
import { CUSTOMERS, type Customer, type CustomerKey } from "./customers.ts";
import { OPERATOR, Recording, type Step } from "./recording.ts";
import { drawRequests, type DrawnRequest } from "./traffic.ts";
import { voucherSteps } from "./voucherSteps.ts";

/** The month that was written. */
export interface Month {
  /** The secret of the demo account's key. */
  readonly key: string;
  /** A voucher to redeem. */
  readonly voucher: CreatedVoucherDocument | undefined;
  readonly requests: number;
}

/** Any number: another one draws another month. */
const SEED = 20_261_124;
const HOUR_MS = 3_600_000;
const TEN_ROUBLES = 10n * NANO_ROUBLES_PER_ROUBLE;
/** What an account that runs dry has at least at the end. */
const LEFT_OVER = 2n * NANO_ROUBLES_PER_ROUBLE;
/** Who makes credits, in the ledger and the admin log. */
const BILLING = "billing";
const REFUND_NOTES = ["the answer was cut off", "half of it, as agreed with the customer"];

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
    // The writer's Worker starts meanwhile.
    const requests = drawRequests(config.models, until, seededRandom(SEED));
    const recording = new Recording(config, store, writer);
    await Promise.race([recording.run(stepsOf(requests, until)), broken.promise]);
    const { demoSecret: key, openVoucher: voucher } = recording;
    return { key, voucher, requests: requests.length };
  } finally {
    await writer.close();
    store.close();
  }
}

function stepsOf(requests: readonly DrawnRequest[], until: number): Step[] {
  const byCustomer = Map.groupBy(requests, ({ customer }) => customer);
  const steps = CUSTOMERS.flatMap((customer) =>
    customerSteps(customer, byCustomer.get(customer) ?? [], until),
  );
  return [...steps, ...voucherSteps(until)].sort((one, other) => one.at - other.at);
}

/** All steps of a customer in the order of their times, but for refunds and changes of keys. */
function customerSteps(customer: Customer, drawn: readonly DrawnRequest[], until: number): Step[] {
  const { account, overdraft = 0, sinceDaysAgo, disabledDaysAgo } = customer;
  const requests = customer.payment.runsDry ? withWriteOff(drawn) : drawn;
  const createdAt = until - sinceDaysAgo * DAY_MS;
  const steps: Step[] = [
    {
      at: createdAt,
      change: (recording) => recording.createAccount(account, roubles(overdraft), createdAt),
    },
    ...customer.keys.flatMap((key) => keySteps(customer, key, { requests, until })),
    ...requestSteps(customer, requests, createdAt),
    ...refundSteps(customer, requests, until),
  ];
  if (disabledDaysAgo !== undefined) {
    const at = until - disabledDaysAgo * DAY_MS;
    steps.push({
      at,
      change: ({ store }) => void store.admin.setDisabled({ name: OPERATOR, at }, account, true),
    });
  }
  return steps;
}

function keySteps(
  customer: Customer,
  key: CustomerKey,
  { requests, until }: { requests: readonly DrawnRequest[]; until: number },
): Step[] {
  const ago = (days: number): number => until - days * DAY_MS;
  const spent = sumOf(requests.filter((request) => request.key === key));
  const { createdDaysAgo = customer.sinceDaysAgo, expiresInDays, budgetPercent = 0 } = key;
  const settings = {
    at: ago(createdDaysAgo),
    expiresAt: expiresInDays === undefined ? null : ago(-expiresInDays),
    budget: budgetPercent === 0 ? null : roundUp((spent * BigInt(budgetPercent)) / 100n),
  };
  const steps: Step[] = [
    { at: settings.at, change: (recording) => recording.createKey(customer, key, settings) },
  ];
  if (key.rotatedDaysAgo !== undefined) {
    const at = ago(key.rotatedDaysAgo);
    steps.push({ at, change: (recording) => recording.rotateKey(customer, key, at) });
  }
  if (key.revokedDaysAgo !== undefined) {
    const at = ago(key.revokedDaysAgo);
    steps.push({
      at,
      change: (recording) => {
        const { publicId } = recording.keyOf(customer, key);
        recording.store.admin.revokeKey({ name: OPERATOR, at }, publicId);
      },
    });
  }
  return steps;
}

/** The requests, with the credits that pay for them. `createdAt`: when the account was created. */
function requestSteps(
  customer: Customer,
  requests: readonly DrawnRequest[],
  createdAt: number,
): Step[] {
  const { payment, overdraft = 0 } = customer;
  const steps: Step[] = [];
  let balance = 0n;
  let unpaid = sumOf(requests);
  let credits = 0;
  let lastAt = createdAt;
  for (const request of requests) {
    const { charge } = request.record;
    if (balance - charge < roubles(payment.below)) {
      const missing = payment.runsDry ? roundUp(unpaid - balance + LEFT_OVER) : NANO_ROUBLES_MAX;
      const amount = min(roubles(payment.amount), missing);
      if (amount > 0n) {
        const at = Math.max(lastAt, request.endsAt - HOUR_MS / 6);
        credits += 1;
        steps.push(creditStep(customer, { at, amount, number: credits }));
        balance += amount;
      }
    }
    const available = balance + roubles(overdraft);
    assert(charge <= available, "the demo's month spends more than it has");
    steps.push({ at: request.endsAt, request: heldWithin(request, available) });
    balance -= charge;
    unpaid -= charge;
    lastAt = request.endsAt;
  }
  return steps;
}

function creditStep(
  { account, payment }: Customer,
  { at, amount, number }: { at: number; amount: bigint; number: number },
): Step {
  return {
    at,
    change: ({ store }) => {
      store.admin.changeBalance(
        { name: BILLING, at },
        {
          account,
          kind: "credit",
          amount,
          ref: payment.ref === undefined ? null : `${payment.ref}${number}`,
          note: payment.note ?? null,
        },
      );
    },
  };
}

/** Some of the most expensive requests are refunded, in full or in part. */
function refundSteps(
  { refunds = 0 }: Customer,
  requests: readonly DrawnRequest[],
  until: number,
): Step[] {
  return requests
    .filter(({ record, endsAt }) => record.status === "done" && endsAt < until - DAY_MS)
    .toSorted((one, other) => Number(other.record.charge - one.record.charge))
    .slice(0, refunds)
    .map(({ record, endsAt }, index) => {
      const at = endsAt + (2 + 3 * index) * HOUR_MS;
      const amount = index === 0 ? null : record.charge / 2n;
      const note = REFUND_NOTES[index] ?? null;
      return {
        at,
        change: ({ store }) => {
          const refund = { request: record.publicId, amount, ref: null, note };
          store.admin.refund({ name: OPERATOR, at }, refund);
        },
      };
    });
}

/** The most expensive request used more than its hold, and the account could not pay the difference. */
function withWriteOff(requests: readonly DrawnRequest[]): DrawnRequest[] {
  const most = requests.reduce(
    (max, { record }) => (record.charge > max ? record.charge : max),
    0n,
  );
  return requests.map((request) => {
    const { record } = request;
    if (record.charge !== most || record.status !== "done") return request;
    const writeOff = record.charge / 5n;
    const charge = record.charge - writeOff;
    return { ...request, record: { ...record, charge, writeOff, hold: charge, estimated: false } };
  });
}

/** A request holds no more than its account has. */
function heldWithin(request: DrawnRequest, available: bigint): DrawnRequest {
  const { record } = request;
  const hold = min(record.hold, available);
  return { ...request, record: { ...record, hold: hold < record.charge ? record.charge : hold } };
}

function sumOf(requests: readonly DrawnRequest[]): bigint {
  return requests.reduce((sum, { record }) => sum + record.charge, 0n);
}

function roubles(count: number): bigint {
  return BigInt(count) * NANO_ROUBLES_PER_ROUBLE;
}

/** The next multiple of ten roubles; 0 for an amount below 0. */
function roundUp(amount: bigint): bigint {
  return amount <= 0n ? 0n : ((amount + TEN_ROUBLES - 1n) / TEN_ROUBLES) * TEN_ROUBLES;
}

function min(one: bigint, other: bigint): bigint {
  return one < other ? one : other;
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
