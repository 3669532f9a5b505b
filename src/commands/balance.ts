import type { Command } from "commander";
import { formatRoubles } from "../lib/money.ts";
import { available, type AccountRow, type LedgerRow } from "../store/store.ts";
import { amount, listLimit, note, reference } from "./arguments.ts";
import { visible, type Result } from "./print.ts";
import { fields, table } from "./table.ts";
import { findAccount, withSession, type Session } from "./session.ts";
import { isoTime, shortTime } from "./times.ts";

interface BookingOptions {
  readonly ref?: string;
  readonly note?: string;
}

const HISTORY_DEFAULT = 50;
const CHARGE_REF = "req:";

/** Registers `tollgate balance`. */
export function addBalance(program: Command): void {
  const balance = program.command("balance").description("credit, debit and show balances");
  addBooking(balance, "credit", "put money on an account");
  addBooking(balance, "debit", "take money from an account, at most what is available");
  balance
    .command("show")
    .description("show what an account has")
    .argument("<account>")
    .action((name: string, _: unknown, command: Command) =>
      withSession(command, "read", (session) => shown(findAccount(session, name))),
    );
  balance
    .command("history")
    .description("show the ledger of an account, newest first")
    .argument("<account>")
    .option("--limit <count>", "how many rows at most", listLimit, HISTORY_DEFAULT)
    .action((name: string, options: { limit: number }, command: Command) =>
      withSession(command, "read", (session) => history(session, name, options.limit)),
    );
}

function addBooking(balance: Command, kind: "credit" | "debit", description: string): void {
  balance
    .command(kind)
    .description(description)
    .argument("<account>")
    .argument("<roubles>", "such as 100 or 12.5", amount)
    .option(
      "--ref <text>",
      "your own name for this booking: booked once, however often it is run",
      reference,
    )
    .option("--note <text>", "a remark for the history", note)
    .action((name: string, roubles: bigint, options: BookingOptions, command: Command) =>
      withSession(command, "change", (session) =>
        book(session, kind, { name, roubles, ...options }),
      ),
    );
}

function book(
  session: Session,
  kind: "credit" | "debit",
  booking: BookingOptions & { readonly name: string; readonly roubles: bigint },
): Result {
  const { name, roubles, ref = null, note = null } = booking;
  findAccount(session, name);
  const { account, applied } = session.store.admin.book(session.actor, {
    account: name,
    kind,
    amount: roubles,
    ref,
    note,
  });
  const amountText = formatRoubles(roubles);
  const balanceText = formatRoubles(account.balance);
  return {
    document: { account: name, amount_rub: amountText, balance_rub: balanceText, ref, applied },
    text: () =>
      visible(
        applied
          ? `${kind}ed ${amountText} roubles, balance of ${name}: ${balanceText} roubles`
          : `ref ${ref} was booked before: nothing changed, balance of ${name}: ${balanceText} roubles`,
      ),
  };
}

function shown(account: AccountRow): Result {
  const document = {
    account: account.name,
    balance_rub: formatRoubles(account.balance),
    held_rub: formatRoubles(account.held),
    overdraft_rub: formatRoubles(account.overdraft),
    available_rub: formatRoubles(available(account)),
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

function history(session: Session, name: string, limit: number): Result {
  const account = findAccount(session, name);
  const rows = session.store.ledger.history(account.id, limit);
  return {
    document: rows.map(ledgerDocument),
    text: () =>
      rows.length === 0
        ? visible(`nothing was booked on ${name} yet: tollgate balance credit ${name} 100`)
        : historyText(rows),
  };
}

function ledgerDocument(row: LedgerRow) {
  return {
    id: row.id,
    at: isoTime(row.at),
    kind: row.kind,
    amount_rub: formatRoubles(row.amount),
    balance_rub: formatRoubles(row.balanceAfter),
    ref: row.ref,
    note: row.note,
    request_id:
      row.kind === "charge" && row.ref?.startsWith(CHARGE_REF)
        ? row.ref.slice(CHARGE_REF.length)
        : null,
  };
}

function historyText(rows: readonly LedgerRow[]): string {
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
      row.ref ?? "-",
      row.note ?? "",
    ]),
  );
}
