import { createVouchers } from "../../administration/vouchers.ts";
import type { CreatedVoucherDocument } from "../../contract/operator/voucher.ts";
import { DAY_MS } from "../../lib/clock.ts";
import { NANO_ROUBLES_PER_ROUBLE } from "../../lib/money.ts";
import { OPERATOR, type Step } from "./recording.ts";

/** The vouchers of one command. Times are days before the end of the month. Amounts are roubles. */
interface Batch {
  readonly amount: number;
  readonly count: number;
  readonly note: string;
  readonly createdDaysAgo: number;
  readonly expiresDaysAgo: number;
  /** The account and the time of each redemption, in the order of the codes. */
  readonly redeemed: readonly (readonly [account: string, daysAgo: number])[];
  /** The last one is revoked. */
  readonly revokedDaysAgo?: number;
}

const BATCHES: readonly Batch[] = [
  {
    amount: 25,
    count: 4,
    note: "trial",
    createdDaysAgo: 28,
    expiresDaysAgo: 7,
    redeemed: [
      ["demo", 27],
      ["content-studio", 25],
    ],
  },
  {
    amount: 100,
    count: 8,
    note: "conference in November",
    createdDaysAgo: 13,
    expiresDaysAgo: -60,
    redeemed: [
      ["support-desk", 12],
      ["demo", 10],
      ["search-team", 3],
    ],
    revokedDaysAgo: 6,
  },
];

/** Vouchers that are created, redeemed, revoked and expired in a month that ends at `until`. */
export function voucherSteps(until: number): Step[] {
  return BATCHES.flatMap((batch) => batchSteps(batch, until));
}

function batchSteps(batch: Batch, until: number): Step[] {
  const ago = (days: number): number => until - days * DAY_MS;
  const { count, note, redeemed, revokedDaysAgo } = batch;
  let created: CreatedVoucherDocument[] = [];
  const idOf = (index: number): string => created.at(index)?.id ?? "";
  const steps: Step[] = [
    {
      at: ago(batch.createdDaysAgo),
      async change(recording) {
        const { config, store } = recording;
        const amount = BigInt(batch.amount) * NANO_ROUBLES_PER_ROUBLE;
        const expiresAt = ago(batch.expiresDaysAgo);
        const actor = { name: OPERATOR, at: ago(batch.createdDaysAgo) };
        created = await createVouchers(
          { config, store, actor },
          { amount, count, expiresAt, note },
        );
        const open = created.at(redeemed.length);
        if (expiresAt > until && open) recording.openVoucher = open;
      },
    },
    ...redeemed.map(([account, daysAgo], index): Step => ({
      at: ago(daysAgo),
      change: (recording) => recording.redeem(idOf(index), account, ago(daysAgo)),
    })),
  ];
  if (revokedDaysAgo !== undefined) {
    const at = ago(revokedDaysAgo);
    steps.push({
      at,
      change: ({ store }) => void store.admin.revokeVoucher({ name: OPERATOR, at }, idOf(-1)),
    });
  }
  return steps;
}
