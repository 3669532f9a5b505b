import type { Operator } from "../operator.ts";
import { listVouchers } from "../vouchers.ts";
import { accountDocument } from "../../contract/operator/account.ts";
import type { AccountDetail } from "../../contract/operator/accountDetail.ts";
import { keyDocument, keyState } from "../../contract/operator/key.ts";
import { ledgerDocument } from "../../contract/operator/ledger.ts";
import type {
  AccountList,
  KeyList,
  LedgerPage,
  VoucherList,
} from "../../contract/operator/lists.ts";
import type { ReportSpan } from "../../contract/operator/span.ts";
import { voucherDocument } from "../../contract/operator/voucher.ts";
import { formatRoubles } from "../../lib/money.ts";
import {
  available,
  type ListedAccount,
  type ListedKey,
  type VoucherRow,
} from "../../store/store.ts";
import { figuresForm, seriesForm, spanForm } from "./usage.ts";

/** An account has few keys. Its page shows all of them. */
const KEYS_OF_ACCOUNT_MAX = 1000;

/** Which page of a list is wanted. The page follows the row that the cursor names. */
interface ListedPage<Cursor> {
  readonly search?: string | undefined;
  readonly before: Cursor | undefined;
  readonly limit: number;
}

/** The answer of GET /api/accounts. The cursor is a name. */
export async function accountsOf(
  { store, actor }: Operator,
  page: ListedPage<string>,
): Promise<AccountList> {
  const { rows, total } = await store.reports.accounts(andOneMore(page), actor.at);
  return { object: "list", total, ...pageOf(rows, page, accountForm, ({ name }) => name) };
}

/** The answer of GET /api/keys. Throws StoreError if there is no such account. */
export async function keysOf(
  { store, actor }: Operator,
  page: ListedPage<number> & { readonly account: string | undefined },
): Promise<KeyList> {
  if (page.account !== undefined) await store.accounts.findOrThrow(page.account);
  const { rows, total } = await store.reports.keys(andOneMore(page), actor.at);
  const form = (row: ListedKey) => keyForm(row, actor.at);
  return { object: "list", total, ...pageOf(rows, page, form, ({ id }) => id) };
}

/** The answer of GET /api/vouchers. */
export async function vouchersOf(
  operator: Operator,
  page: ListedPage<number>,
): Promise<VoucherList> {
  const { rows, total } = await listVouchers(operator, andOneMore(page));
  const form = (row: VoucherRow) => voucherDocument(row, operator.actor.at);
  return { object: "list", total, ...pageOf(rows, page, form, ({ id }) => id) };
}

/** The answer of GET /api/accounts/NAME. Throws StoreError if there is no such account. */
export async function accountDetailOf(
  { store, actor }: Operator,
  name: string,
  span: ReportSpan,
): Promise<AccountDetail> {
  const account = await store.accounts.findOrThrow(name);
  const report = await store.reports.account(account.id, span, actor.at);
  const keys = await store.reports.keys({ account: name, limit: KEYS_OF_ACCOUNT_MAX }, actor.at);
  return {
    account: accountDocument(account, available(account)),
    ...spanForm(report),
    now: figuresForm(report.now),
    before: figuresForm(report.before),
    series: seriesForm(report.series),
    keys: keys.rows.map((row) => keyForm(row, actor.at)),
  };
}

/** The answer of GET /api/accounts/NAME/ledger. Throws StoreError if there is no such account. */
export async function ledgerOf(
  { store }: Operator,
  name: string,
  page: ListedPage<number>,
): Promise<LedgerPage> {
  const account = await store.accounts.findOrThrow(name);
  const rows = await store.ledger.history(account.id, page.limit + 1, page.before);
  return { object: "list", ...pageOf(rows, page, ledgerDocument, ({ seq }) => seq) };
}

/** One row more than the page has tells whether there is a next page. */
function andOneMore<Page extends { readonly limit: number }>(page: Page): Page {
  return { ...page, limit: page.limit + 1 };
}

function pageOf<Row, Form>(
  rows: readonly Row[],
  { limit }: { readonly limit: number },
  form: (row: Row) => Form,
  cursorOf: (row: Row) => string | number,
): { data: Form[]; next: string | null } {
  const page = rows.slice(0, limit);
  const last = page.at(-1);
  const next = last !== undefined && rows.length > limit ? String(cursorOf(last)) : null;
  return { data: page.map(form), next };
}

function accountForm(row: ListedAccount): AccountList["data"][number] {
  return { ...accountDocument(row, available(row)), keys: row.keys, ...recentForm(row) };
}

function keyForm(row: ListedKey, nowMs: number): KeyList["data"][number] {
  return {
    ...keyDocument(row),
    state: keyState(row, nowMs),
    is_replaced: row.isReplaced,
    ...recentForm(row),
  };
}

function recentForm({ recent }: Pick<ListedAccount, "recent">) {
  return { requests_30d: recent.requests, charged_30d_rub: formatRoubles(recent.charged) };
}
