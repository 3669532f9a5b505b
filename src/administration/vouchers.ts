import { Type } from "@sinclair/typebox";
import { hashOfCode, issueCode } from "../auth/voucherCode.ts";
import {
  CreatedVoucherDocument,
  createdVoucherDocument,
  RevokedVoucherDocument,
  revokedVoucherDocument,
  VoucherDocument,
  voucherDocument,
} from "../contract/operator/voucher.ts";
import { systemClock } from "../lib/clock.ts";
import { csvOf } from "../lib/csv.ts";
import { idMaker, systemRandom } from "../lib/random.ts";
import { table, visible } from "../lib/terminal.ts";
import type { VoucherFilter, VoucherRow } from "../store/store.ts";
import {
  anyText,
  command,
  csvFlag,
  idOf,
  operation,
  optional,
  required,
  type Group,
} from "./operation.ts";
import type { Operator } from "./operator.ts";
import { amount, expiryTime, InvalidValue, note, wholeNumber } from "./values.ts";

/** The most vouchers that one change creates. */
const VOUCHERS_MAX = 1000;
/** The columns of CSV. New ones are added at the end. */
const LIST_COLUMNS = [
  "id",
  "prefix",
  "amount_rub",
  "note",
  "state",
  "created_at",
  "expires_at",
  "revoked_at",
  "redeemed_at",
  "redeemed_by",
] as const;

const create = operation({
  name: "vouchers create",
  doc: "create vouchers and show their codes once",
  route: "POST /api/vouchers",
  input: {
    amount: required("--amount <roubles>", "what each voucher is worth, such as 500", amount),
    count: optional(
      "--count <count>",
      "how many vouchers; default: 1",
      wholeNumber(1, VOUCHERS_MAX),
    ),
    expires: optional(
      "--expires <time>",
      "duration from now such as 90d, or a date: 2026-12-31; default: never",
      expiryTime,
    ),
    note: optional("--note <text>", "a note that only the operator sees", note),
  },
  output: Type.Array(CreatedVoucherDocument),
  effects: ["vouchers"],
  run: async (operator, { expires, ...settings }) => {
    return { document: await createVouchers(operator, { ...settings, expiresAt: expires }) };
  },
  text({ document }) {
    const [first] = document;
    const isOne = document.length === 1;
    const what = isOne ? `${first?.id}` : `${document.length} vouchers`;
    const lead = `created ${what} of ${first?.amount_rub} roubles${isOne ? "" : " each"}. Store the codes now, they are not shown again:`;
    return [visible(lead), "", ...document.map(({ code }) => code)].join("\n");
  },
});

/** Creates vouchers with codes, which no other function returns. `amount` is nano-roubles. */
export async function createVouchers(
  { store, actor }: Operator,
  settings: {
    readonly amount: bigint;
    readonly count?: number | undefined;
    readonly expiresAt?: number | undefined;
    readonly note?: string | undefined;
  },
): Promise<CreatedVoucherDocument[]> {
  const { amount, count = 1, expiresAt = null, note = null } = settings;
  const newId = idMaker(systemClock, systemRandom);
  const issued = Array.from({ length: count }, () => {
    return { publicId: newId("vch"), ...issueCode(systemRandom) };
  });
  const codes = issued.map(({ publicId, hash, prefix }) => ({ publicId, hash, prefix }));
  const rows = await store.admin.createVouchers(actor, { amount, expiresAt, note, codes });
  return rows.map((row, index) => createdVoucherDocument(row, issued[index]?.code ?? "", actor.at));
}

const list = command({
  name: "vouchers list",
  doc: "list vouchers without their codes, newest first",
  input: {
    search: optional(
      "--search <text>",
      "only those with this text in id, first characters of the code, note or account; or a whole code",
      anyText,
    ),
    csv: csvFlag,
  },
  output: Type.Array(VoucherDocument),
  effects: [],
  run: async (operator, { search }) => {
    const { rows } = await listVouchers(operator, { search });
    return { document: rows.map((row) => voucherDocument(row, operator.actor.at)) };
  },
  csv: ({ document }) => csvOf(LIST_COLUMNS, document),
  text({ document }, { toPaste }, { search }) {
    if (document.length > 0) return listText(document);
    return search === undefined
      ? visible(`no vouchers yet: ${toPaste("vouchers", "create", "--amount", "500")}`)
      : "no voucher matches the search";
  },
});

/**
 * Vouchers, the newest first, and how many there are without the cursor and the limit. `search`: a part of the id, of the
 * first characters of the code, of the note or of the account's name, or a whole code.
 */
export async function listVouchers(
  { store }: Operator,
  { search, before, limit }: VoucherFilter = {},
): Promise<{ readonly rows: readonly VoucherRow[]; readonly total: number }> {
  const hash = search === undefined ? undefined : hashOfCode(search);
  if (hash) {
    const found = await store.vouchers.findByHash(hash);
    return { rows: found ? [found] : [], total: found ? 1 : 0 };
  }
  const rows = await store.vouchers.list({ search, before, limit });
  return { rows, total: await store.vouchers.count(search) };
}

function listText(vouchers: readonly VoucherDocument[]): string {
  const columns = [
    { head: "id" },
    { head: "prefix" },
    { head: "amount, RUB", kind: "money" },
    { head: "state" },
    { head: "expires" },
    { head: "redeemed" },
    { head: "redeemed by" },
    { head: "note" },
  ] as const;
  return table(
    columns,
    vouchers.map((voucher) => [
      voucher.id,
      voucher.prefix,
      voucher.amount_rub,
      voucher.state,
      voucher.expires_at === null ? "never" : toTheSecond(voucher.expires_at),
      voucher.redeemed_at === null ? "-" : toTheSecond(voucher.redeemed_at),
      voucher.redeemed_by ?? "-",
      voucher.note ?? "",
    ]),
  );
}

/** An ISO time without its milliseconds. */
function toTheSecond(time: string): string {
  return time.replace(/\.\d+Z$/, "Z");
}

/** A voucher that is redeemed is refused. */
const revoke = operation({
  name: "vouchers revoke",
  doc: "reject the code of an open voucher for ever",
  route: "POST /api/vouchers/:id/revoke",
  input: {
    id: idOf("voucher id such as vch_01jd...; `tollgate vouchers list` shows them", voucherId),
  },
  output: RevokedVoucherDocument,
  effects: ["vouchers"],
  async run({ store, actor }, { id }) {
    const { voucher, applied } = await store.admin.revokeVoucher(actor, id);
    return { document: revokedVoucherDocument(voucher, applied, actor.at) };
  },
  text: ({ document: { applied, id, amount_rub } }) =>
    applied
      ? `revoked ${id} of ${amount_rub} roubles`
      : `${id} was already revoked: nothing changed`,
});

/** A code that is given instead of the id is secret, so no message repeats it. */
function voucherId(text: string): string {
  if (hashOfCode(text) === undefined) return text;
  throw new InvalidValue(
    "this is a code, not a voucher id: `tollgate vouchers list` shows the id beside the first characters of each code",
  );
}

export const vouchers: Group = {
  name: "vouchers",
  doc: "create, list and revoke codes that credit an account once",
  operations: [create, list, revoke],
};
