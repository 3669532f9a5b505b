import type { Command } from "commander";
import { balanceForm } from "../contract/account/account.ts";
import {
  changedBalanceDocument,
  ledgerDocument,
  refundDocument,
} from "../contract/operator/ledger.ts";
import { formatRoubles } from "../lib/money.ts";
import { available, type AccountRow, type HistoryRow } from "../store/store.ts";
import { amount, listLimit, note, reference } from "./cli/arguments.ts";
import { visible, type Result } from "./cli/print.ts";
import { addCsv, csvOf, withReport, type Report } from "./reports/report.ts";
import { fields, table, shortTime } from "./cli/format.ts";
import { withReservedMoney } from "./cli/reservedMoney.ts";
import { withSession, type Session } from "./cli/session.ts";

interface EntryOptions {
  readonly ref?: string;
  readonly note?: string;
}

interface RefundOptions extends EntryOptions {
  readonly amount?: bigint;
}

interface HistoryOptions {
  readonly limit: number;
  readonly csv?: true;
}

const HISTORY_DEFAULT = 50;
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
const refDescription = "your id for this entry; a repeat with the same ref changes nothing";
const noteDescription = "a note for the history";

/** Registers `tollgate balance`. */
export function addBalance(program: Command): void {
  const balance = program.command("balance").description("credit, debit, refund and show balances");
  addEntry(balance, "credit", "add money to an account");
  addEntry(balance, "debit", "take money from an account, at most the available amount");
  addRefund(balance);
  balance
    .command("show")
    .description("show the balance of an account")
    .argument("<account>")
    .action((name: string, _: unknown, command: Command) =>
      withSession(command, "existing", (session) =>
        balanceResult(session.store.accounts.findOrThrow(name)),
      ),
    );
  const historyCommand = balance
    .command("history")
    .description("show the ledger of an account, newest first")
    .argument("<account>")
    .option("--limit <count>", "maximum number of rows", listLimit, HISTORY_DEFAULT);
  addCsv(historyCommand).action((name: string, options: HistoryOptions, command: Command) =>
    withReport(command, options, (session) => history(session, name, options.limit)),
  );
}

function addEntry(balance: Command, kind: "credit" | "debit", description: string): void {
  balance
    .command(kind)
    .description(description)
    .argument("<account>")
    .argument("<roubles>", "such as 100 or 12.5", amount)
    .option("--ref <text>", refDescription, reference)
    .option("--note <text>", noteDescription, note)
    .action((name: string, roubles: bigint, options: EntryOptions, command: Command) =>
      withSession(command, "existing", (session) =>
        changeBalance(session, kind, { name, roubles, ...options }),
      ),
    );
}

async function changeBalance(
  session: Session,
  kind: "credit" | "debit",
  entry: EntryOptions & { readonly name: string; readonly roubles: bigint },
): Promise<Result> {
  const { name, roubles, ref = null, note = null } = entry;
  const { admin } = session.store;
  const { account, applied } = await withReservedMoney(admin, name, () =>
    admin.changeBalance(session.actor, { account: name, kind, amount: roubles, ref, note }),
  );
  const amountText = formatRoubles(roubles);
  const balanceText = formatRoubles(account.balance);
  return {
    document: changedBalanceDocument({ account, amount: roubles, ref, applied }),
    text: () =>
      visible(
        applied
          ? `${kind}ed ${amountText} roubles, balance of ${name}: ${balanceText} roubles`
          : unchangedText(ref, account),
      ),
  };
}

function unchangedText(ref: string | null, { name, balance }: AccountRow): string {
  return `ref ${ref} was recorded before, nothing changed; balance of ${name}: ${formatRoubles(balance)} roubles`;
}

function addRefund(balance: Command): void {
  balance
    .command("refund")
    .description("refund the charge of a request, or a part of it")
    .argument("<request>", "request id such as req_01jd...; `tollgate requests` lists them")
    .option(
      "--amount <roubles>",
      "amount to refund; default: all that is left of the charge",
      amount,
    )
    .option("--ref <text>", refDescription, reference)
    .option("--note <text>", noteDescription, note)
    .action((request: string, options: RefundOptions, command: Command) =>
      withSession(command, "existing", (session) => refund(session, request, options)),
    );
}

function refund({ store, actor }: Session, request: string, options: RefundOptions): Result {
  const { ref = null, note = null } = options;
  const refunding = { request, amount: options.amount ?? null, ref, note };
  const { account, amount, applied } = store.admin.refund(actor, refunding);
  const amountText = formatRoubles(amount);
  const balanceText = formatRoubles(account.balance);
  const { name } = account;
  return {
    document: refundDocument(request, { account, amount, ref, applied }),
    text: () =>
      visible(
        applied
          ? `refunded ${amountText} roubles of ${request}, balance of ${name}: ${balanceText} roubles`
          : unchangedText(ref, account),
      ),
  };
}

function balanceResult(account: AccountRow): Result {
  const document = {
    account: account.name,
    ...balanceForm(account, available(account)),
    overdraft_rub: formatRoubles(account.overdraft),
  };
  return {
    document,
    text: () =>
      fields([
        ["account", account.name],
        ["balance, RUB", document.balance_rub],
        ["held, RUB", document.held_rub],
        ["overdraft, RUB", document.overdraft_rub],
        ["available, RUB", document.available_rub],
      ]),
  };
}

function history(session: Session, name: string, limit: number): Report {
  const account = session.store.accounts.findOrThrow(name);
  const rows = session.store.ledger.history(account.id, limit);
  const document = rows.map(ledgerDocument);
  return {
    document,
    csv: csvOf(HISTORY_COLUMNS, document),
    text: () =>
      rows.length === 0
        ? visible(
            `no ledger entries for ${name} yet: ${session.toPaste("balance", "credit", name, "100")}`,
          )
        : historyText(rows),
  };
}

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
