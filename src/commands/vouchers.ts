import type { Command } from "commander";
import { expiryTime } from "../administration/values.ts";
import {
  createVouchers,
  listVouchers,
  revokeVoucher,
  voucherCount,
  voucherId,
} from "../administration/vouchers.ts";
import type { CreatedVoucherDocument, VoucherDocument } from "../contract/operator/voucher.ts";
import { systemClock } from "../lib/clock.ts";
import { amount, argument, asUsage, note } from "./cli/arguments.ts";
import { table } from "./cli/format.ts";
import { visible, type Result } from "./cli/print.ts";
import { withSession, type Session } from "./cli/session.ts";
import { addCsv, csvOf, withReport, type Report } from "./reports/report.ts";

interface CreateOptions {
  readonly amount: bigint;
  readonly count?: number;
  readonly expires?: number;
  readonly note?: string;
}

interface ListOptions {
  readonly search?: string;
  readonly csv?: true;
}

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

/** Registers `tollgate vouchers`. */
export function addVouchers(program: Command): void {
  const vouchers = program
    .command("vouchers")
    .description("create, list and revoke codes that credit an account once");
  const expires = argument((text) => expiryTime(text, systemClock.epochMs()));
  vouchers
    .command("create")
    .description("create vouchers and show their codes once")
    .requiredOption("--amount <roubles>", "what each voucher is worth, such as 500", amount)
    .option("--count <count>", "how many vouchers; default: 1", argument(voucherCount))
    .option(
      "--expires <time>",
      "duration from now such as 90d, or a date: 2026-12-31; default: never",
      expires,
    )
    .option("--note <text>", "a note that only the operator sees", note)
    .action((options: CreateOptions, command: Command) =>
      withSession(command, "existing", (session) => create(session, options)),
    );
  const list = vouchers
    .command("list")
    .description("list vouchers without their codes, newest first")
    .option(
      "--search <text>",
      "only those with this text in id, first characters of the code, note or account; or a whole code",
    );
  addCsv(list).action((options: ListOptions, command: Command) =>
    withReport(
      command,
      { ...(options.csv && { csv: options.csv }) },
      (session) => listed(session, options.search),
      "existing",
    ),
  );
  vouchers
    .command("revoke")
    .description("reject the code of an open voucher for ever")
    .argument("<id>", "voucher id such as vch_01jd...; `tollgate vouchers list` shows them", (id) =>
      asUsage(() => voucherId(id)),
    )
    .action((id: string, _: unknown, command: Command) =>
      withSession(command, "existing", (session) => revoke(session, id)),
    );
}

async function create(session: Session, options: CreateOptions): Promise<Result> {
  const { expires, ...settings } = options;
  const document = await createVouchers(session, { ...settings, expiresAt: expires });
  return { document, text: () => createdText(document) };
}

function createdText(created: readonly CreatedVoucherDocument[]): string {
  const [first] = created;
  const what = created.length === 1 ? `${first?.id}` : `${created.length} vouchers`;
  const each = created.length === 1 ? "" : " each";
  const lead = `created ${what} of ${first?.amount_rub} roubles${each}. Store the codes now, they are not shown again:`;
  return [visible(lead), "", ...created.map(({ code }) => code)].join("\n");
}

async function listed(session: Session, search: string | undefined): Promise<Report> {
  const { vouchers: document } = await listVouchers(session, { search });
  return {
    document,
    csv: csvOf(LIST_COLUMNS, document),
    text: () => {
      if (document.length > 0) return listText(document);
      return search === undefined
        ? visible(`no vouchers yet: ${session.toPaste("vouchers", "create", "--amount", "500")}`)
        : "no voucher matches the search";
    },
  };
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

async function revoke(session: Session, id: string): Promise<Result> {
  const document = await revokeVoucher(session, id);
  return {
    document,
    text: () =>
      document.applied
        ? `revoked ${document.id} of ${document.amount_rub} roubles`
        : `${document.id} was already revoked: nothing changed`,
  };
}

/** An ISO time without its milliseconds. */
function toTheSecond(time: string): string {
  return time.replace(/\.\d+Z$/, "Z");
}
