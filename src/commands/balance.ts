import type { Command } from "commander";
import { balanceForm } from "../contract/account/account.ts";
import { changeBalance, refund } from "../administration/balances.ts";
import { ledgerDocument, type ChangedBalanceDocument } from "../contract/operator/ledger.ts";
import { formatRoubles } from "../lib/money.ts";
import { available, type AccountRow, type HistoryRow } from "../store/store.ts";
import { amount, listLimit, note, reference } from "./cli/arguments.ts";
import { visible, type Result } from "./cli/print.ts";
import { addCsv, csvOf, withReport, type Report } from "./reports/report.ts";
import { fields, table, shortTime } from "./cli/format.ts";
import { printWaiting, withSession, type Session } from "./cli/session.ts";

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
      withSession(command, "existing", async (session) =>
        balanceResult(await session.store.accounts.findOrThrow(name)),
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
        changeResult(session, kind, { account: name, amount: roubles, ...options }),
      ),
    );
}

async function changeResult(
  session: Session,
  kind: "credit" | "debit",
  entry: EntryOptions & { readonly account: string; readonly amount: bigint },
): Promise<Result> {
  const document = await changeBalance(session, { ...entry, kind }, printWaiting);
  return {
    document,
    text: () =>
      visible(
        document.applied
          ? `${kind}ed ${document.amount_rub} roubles, balance of ${document.account}: ${document.balance_rub} roubles`
          : unchangedText(document),
      ),
  };
}

function unchangedText({ ref, account, balance_rub }: ChangedBalanceDocument): string {
  return `ref ${ref} was recorded before, nothing changed; balance of ${account}: ${balance_rub} roubles`;
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
      withSession(command, "existing", (session) => refundResult(session, request, options)),
    );
}

async function refundResult(
  session: Session,
  request: string,
  options: RefundOptions,
): Promise<Result> {
  const document = await refund(session, { request, ...options });
  return {
    document,
    text: () =>
      visible(
        document.applied
          ? `refunded ${document.amount_rub} roubles of ${request}, balance of ${document.account}: ${document.balance_rub} roubles`
          : unchangedText(document),
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

async function history(session: Session, name: string, limit: number): Promise<Report> {
  const account = await session.store.accounts.findOrThrow(name);
  const rows = await session.store.ledger.history(account.id, limit);
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
