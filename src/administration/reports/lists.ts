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
import { formatRoubles } from "../../lib/money.ts";
import { available, type ListedAccount, type ListedKey } from "../../store/store.ts";
import { figuresForm, seriesForm, spanForm } from "./usage.ts";

/** An account has few keys. Its page shows all of them. */
const KEYS_OF_ACCOUNT_MAX = 1000;

/** The answer of GET /api/accounts. */
export async function accountsOf(
  { store, actor }: Operator,
  search: { readonly search: string | undefined; readonly limit: number },
): Promise<AccountList> {
  const { rows, total } = await store.reports.accounts(search, actor.at);
  return {
    object: "list",
    data: rows.map(accountForm),
    total,
  };
}

/** The answer of GET /api/keys. Throws StoreError if there is no such account. */
export async function keysOf(
  { store, actor }: Operator,
  search: {
    readonly account: string | undefined;
    readonly search: string | undefined;
    readonly limit: number;
  },
): Promise<KeyList> {
  if (search.account !== undefined) await store.accounts.findOrThrow(search.account);
  const { rows, total } = await store.reports.keys(search, actor.at);
  return { object: "list", data: rows.map((row) => keyForm(row, actor.at)), total };
}

/** The answer of GET /api/vouchers. */
export async function vouchersOf(
  operator: Operator,
  search: { readonly search: string | undefined; readonly limit: number },
): Promise<VoucherList> {
  const { vouchers, total } = await listVouchers(operator, search);
  return { object: "list", data: [...vouchers], total };
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
  { before, limit }: { readonly before: number | undefined; readonly limit: number },
): Promise<LedgerPage> {
  const account = await store.accounts.findOrThrow(name);
  const rows = await store.ledger.history(account.id, limit + 1, before);
  const page = rows.slice(0, limit);
  return {
    object: "list",
    data: page.map(ledgerDocument),
    next: rows.length > limit ? String(page.at(-1)?.seq) : null,
  };
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
