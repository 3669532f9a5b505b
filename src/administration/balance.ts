import { balanceForm } from "../contract/account/account.ts";
import {
  ChangedBalanceDocument,
  changedBalanceDocument,
  ledgerDocument,
  RefundDocument,
  refundDocument,
} from "../contract/operator/ledger.ts";
import { csvOf } from "../lib/csv.ts";
import { formatRoubles } from "../lib/money.ts";
import { fields, shortTime, table, visible } from "../lib/terminal.ts";
import { available, type HistoryRow } from "../store/store.ts";
import {
  anyText,
  command,
  csvFlag,
  operation,
  optional,
  required,
  withDefault,
  type Group,
  type OptionalField,
  type Values,
} from "./operation.ts";
import type { Operator } from "./operator.ts";
import { withReservedMoney } from "./reservedMoney.ts";
import { amount, listLimit, note, reference } from "./values.ts";

/** The columns of CSV. New ones are added at the end. */
const HISTORY_COLUMNS = [
  "id",
  "at",
  "kind",
  "amount_rub",
  "balance_rub",
  "ref",
  "note",
  "request_id",
] as const;

/** A repeat with the same `ref` changes nothing. */
const refAndNote = {
  ref: optional(
    "--ref <text>",
    "your id for this entry; a repeat with the same ref changes nothing",
    reference,
  ),
  note: optional("--note <text>", "a note for the history", note),
};

const account = required("<account>", undefined, anyText);
const entry = {
  account,
  amount: required("<roubles>", "such as 100 or 12.5", amount),
  ...refAndNote,
};

const credit = operation({
  name: "balance credit",
  doc: "add money to an account",
  route: "POST /api/accounts/:account/credit",
  input: entry,
  output: ChangedBalanceDocument,
  effects: ["balance"],
  run: (operator, values) => changeBalance(operator, "credit", values),
  text: ({ document }) => changedText("credited", document),
});

const debit = operation({
  name: "balance debit",
  doc: "take money from an account, at most the available amount",
  route: "POST /api/accounts/:account/debit",
  input: entry,
  output: ChangedBalanceDocument,
  effects: ["balance"],
  run: (operator, values) => changeBalance(operator, "debit", values),
  text: ({ document }) => changedText("debited", document),
});

/** A debit waits for money that the serving gateway has reserved. */
async function changeBalance(
  { store, actor, onWait }: Operator,
  kind: "credit" | "debit",
  { account, amount, ...given }: Values<typeof entry>,
): Promise<{ readonly document: ChangedBalanceDocument }> {
  const { admin } = store;
  const change = { account, kind, amount, ref: given.ref ?? null, note: given.note ?? null };
  const changed = await withReservedMoney(
    admin,
    account,
    () => admin.changeBalance(actor, change),
    onWait,
  );
  return { document: changedBalanceDocument({ ...change, ...changed }) };
}

function changedText(done: string, document: ChangedBalanceDocument): string {
  const { applied, amount_rub, account, balance_rub, ref } = document;
  return visible(
    applied
      ? `${done} ${amount_rub} roubles, balance of ${account}: ${balance_rub} roubles`
      : `ref ${ref} was recorded before, nothing changed; balance of ${account}: ${balance_rub} roubles`,
  );
}

const refund = operation({
  name: "balance refund",
  doc: "refund the charge of a request, or a part of it",
  route: "POST /api/requests/:id/refund",
  input: {
    id: required(
      "<request>",
      "request id such as req_01jd...; `tollgate requests` lists them",
      anyText,
    ),
    amount: optional(
      "--amount <roubles>",
      "amount to refund; default: all that is left of the charge",
      amount,
    ),
    ...refAndNote,
  },
  output: RefundDocument,
  effects: ["balance"],
  async run({ store, actor }, { id: request, amount = null, ref = null, note = null }) {
    const refunded = await store.admin.refund(actor, { request, amount, ref, note });
    return { document: refundDocument(request, { ...refunded, ref }) };
  },
  text: ({ document }) =>
    document.applied
      ? visible(
          `refunded ${document.amount_rub} roubles of ${document.request}, balance of ${document.account}: ${document.balance_rub} roubles`,
        )
      : changedText("refunded", document),
});

const show = command({
  name: "balance show",
  doc: "show the balance of an account",
  input: { account },
  effects: [],
  async run({ store }, { account: name }) {
    const account = await store.accounts.findOrThrow(name);
    const document = {
      account: account.name,
      ...balanceForm(account, available(account)),
      overdraft_rub: formatRoubles(account.overdraft),
    };
    return { document };
  },
  text: ({ document }) =>
    fields([
      ["account", document.account],
      ["balance, RUB", document.balance_rub],
      ["held, RUB", document.held_rub],
      ["overdraft, RUB", document.overdraft_rub],
      ["available, RUB", document.available_rub],
    ]),
});

/** The maximum number of rows of a list. */
export function rowLimit(of: string): OptionalField<number> {
  return withDefault("50", "--limit <count>", `maximum number of ${of}`, listLimit);
}

const history = command({
  name: "balance history",
  doc: "show the ledger of an account, newest first",
  input: { account, limit: rowLimit("rows"), csv: csvFlag },
  effects: [],
  access: "report",
  async run({ store }, { account, limit }) {
    const { id } = await store.accounts.findOrThrow(account);
    const rows = await store.ledger.history(id, limit);
    return { document: rows.map(ledgerDocument), rows };
  },
  csv: ({ document }) => csvOf(HISTORY_COLUMNS, document),
  text: ({ rows }, { toPaste }, { account }) =>
    rows.length === 0
      ? visible(
          `no ledger entries for ${account} yet: ${toPaste("balance", "credit", account, "100")}`,
        )
      : historyText(rows),
});

function historyText(rows: readonly HistoryRow[]): string {
  const columns = [
    { head: "time" },
    { head: "kind" },
    { head: "amount, RUB", kind: "money" },
    { head: "balance, RUB", kind: "money" },
    { head: "ref" },
    { head: "note" },
  ] as const;
  return table(
    columns,
    rows.map((row) => [
      shortTime(row.at),
      row.kind,
      formatRoubles(row.amount),
      formatRoubles(row.balanceAfter),
      row.kind === "refund" ? `${row.ref ?? ""} of ${row.requestId}`.trim() : (row.ref ?? "-"),
      row.note ?? "",
    ]),
  );
}

export const balance: Group = {
  name: "balance",
  doc: "credit, debit, refund and show balances",
  operations: [credit, debit, refund, show, history],
};
