import { Option, type Command } from "commander";
import { requestStatuses, type RequestStatus } from "../../contract/account/requestStatus.ts";
import { requestDetailDocument, requestDocument } from "../../contract/operator/request.ts";
import { formatRoubles } from "../../lib/money.ts";
import type { AttemptRecord, ReceiptRow, RequestRow } from "../../store/store.ts";
import { listLimit } from "../cli/arguments.ts";
import { CommandFailure, visible, type Result } from "../cli/print.ts";
import { pricePerMillion, fields, table, shortTime } from "../cli/format.ts";
import { addCsv, addSpan, csvOf, withReport, type Report, type SpanOptions } from "./report.ts";
import { withSession, type Session } from "../cli/session.ts";

interface ListOptions extends SpanOptions {
  readonly account?: string;
  readonly status?: RequestStatus;
  readonly key?: string;
  readonly model?: string;
  readonly limit: number;
  readonly csv?: true;
}

const LIST_DEFAULT = 50;
/** The columns of CSV. New ones are added at the end. */
const LIST_COLUMNS = [
  "id",
  "at",
  "account",
  "key_id",
  "endpoint",
  "model",
  "provider",
  "stream",
  "status",
  "prompt_tokens",
  "cached_tokens",
  "cache_write_tokens",
  "completion_tokens",
  "estimated",
  "cost_rub",
  "write_off_rub",
  "attempt_count",
  "duration_ms",
  "first_byte_ms",
  "cache_write_1h_tokens",
  "web_searches",
] as const;

/** Registers `tollgate requests` and `tollgate requests show`. */
export function addRequests(program: Command): void {
  const requests = program
    .command("requests")
    .description("list requests and their outcome, the one recorded last first")
    .option("--account <name>", "only this account")
    .addOption(
      new Option("--status <status>", "only requests with this status").choices(requestStatuses),
    )
    .option("--key <id>", "only requests of this key")
    .option("--model <id>", "only requests for this model");
  addCsv(addSpan(requests))
    .option("--limit <count>", "maximum number of requests", listLimit, LIST_DEFAULT)
    .action((options: ListOptions, command: Command) =>
      withReport(command, options, (session) => list(session, options)),
    );
  requests
    .command("show")
    .description("show one request with its attempts and prices")
    .argument("<id>", "request id such as req_01jd...: the x-request-id of the answer")
    .action((id: string, _: unknown, command: Command) => {
      refuseListOptions(requests);
      return withSession(command, "report", (session) => show(session, id));
    });
}

/** Commander also accepts the options of a command after the name of its subcommand. */
function refuseListOptions(requests: Command): void {
  const given = requests.options.find(
    (option) => requests.getOptionValueSource(option.attributeName()) === "cli",
  );
  if (given === undefined) return;
  throw new CommandFailure(`${given.long} applies to the list of requests only: omit it`, {
    status: 2,
  });
}

async function list(session: Session, options: ListOptions): Promise<Report> {
  const { account, key } = options;
  if (account !== undefined) await session.store.accounts.findOrThrow(account);
  if (key !== undefined) await session.store.keys.findOrThrow(key);
  const rows = await session.store.requests.list(options);
  const document = rows.map(requestDocument);
  return {
    document,
    csv: csvOf(LIST_COLUMNS, document),
    text: () => (rows.length === 0 ? emptyText(session, options) : listText(rows)),
  };
}

function emptyText({ toPaste }: Session, options: ListOptions): string {
  const { account, status, key, model, since, until } = options;
  return [account, status, key, model, since, until].every((one) => one === undefined)
    ? visible(`no requests yet: ${toPaste("keys", "create", "--account", "NAME")} issues a key`)
    : "no matching requests: omit some of --account, --status, --key, --model, --since, --until";
}

function listText(rows: readonly RequestRow[]): string {
  const columns = [
    { head: "time" },
    { head: "id" },
    { head: "account" },
    { head: "model" },
    { head: "provider" },
    { head: "status" },
    { head: "prompt", kind: "number" },
    { head: "completion", kind: "number" },
    { head: "cost, RUB", kind: "money" },
    { head: "ms", kind: "number" },
  ] as const;
  return table(
    columns,
    rows.map((row) => [
      shortTime(row.at),
      row.id,
      row.account,
      row.model,
      row.provider ?? "-",
      row.status,
      String(row.promptTokens),
      String(row.completionTokens),
      formatRoubles(row.charge),
      milliseconds(row.durationMs),
    ]),
  );
}

async function show({ store }: Session, id: string): Promise<Result> {
  const request = await store.requests.find(id);
  if (request === undefined) {
    throw new CommandFailure(
      `there is no request ${JSON.stringify(id)}, or it is older than [database] keep_requests: \`tollgate requests\` lists the latest`,
    );
  }
  const attempts = await store.requests.attempts(id);
  return {
    document: requestDetailDocument(request, attempts),
    text: () => `${requestText(request)}\n\n${attemptsText(attempts)}`,
  };
}

function requestText(row: ReceiptRow): string {
  const tokens = (count: number, price: bigint) =>
    `${count} tokens at ${pricePerMillion(price)} RUB per 1M`;
  const uncached = row.promptTokens - row.cachedTokens - row.cacheWriteTokens;
  return fields([
    ["request", row.id],
    ["time", shortTime(row.at)],
    ["account", row.account],
    ["key", row.key],
    ["endpoint", row.stream ? `${row.endpoint}, streamed` : row.endpoint],
    ["model", row.model],
    ["provider", row.provider ?? "-"],
    ["status", row.status],
    ["input", tokens(uncached, row.priceInput)],
    ["cached input", tokens(row.cachedTokens, row.priceCachedInput)],
    ["cache write", tokens(row.cacheWriteTokens - row.cacheWrite1hTokens, row.priceCacheWrite)],
    ...(row.cacheWrite1hTokens > 0
      ? [["cache write, 1 h", tokens(row.cacheWrite1hTokens, row.priceCacheWrite1h)] as const]
      : []),
    ["output", tokens(row.completionTokens, row.priceOutput)],
    ...(row.webSearches > 0
      ? [
          [
            "web searches",
            `${row.webSearches} at ${formatRoubles(row.priceWebSearch)} RUB`,
          ] as const,
        ]
      : []),
    ["cost, RUB", `${formatRoubles(row.charge)}${row.estimated ? " (estimated)" : ""}`],
    ["refunded, RUB", formatRoubles(row.refunded)],
    ["write-off, RUB", formatRoubles(row.writeOff)],
    ["held, RUB", formatRoubles(row.hold)],
    ["provider cost, RUB", row.operatorCost === null ? "-" : formatRoubles(row.operatorCost)],
    ["first byte, ms", milliseconds(row.firstByteMs)],
    ["duration, ms", milliseconds(row.durationMs)],
  ]);
}

function attemptsText(attempts: readonly AttemptRecord[]): string {
  if (attempts.length === 0) return "no attempt has ended yet";
  const columns = [
    { head: "attempt", kind: "number" },
    { head: "provider" },
    { head: "outcome" },
    { head: "status", kind: "number" },
    { head: "ms", kind: "number" },
  ] as const;
  return table(
    columns,
    attempts.map((attempt, at) => [
      String(at + 1),
      attempt.provider,
      attempt.outcome,
      attempt.status === null ? "-" : String(attempt.status),
      String(attempt.durationMs),
    ]),
  );
}

function milliseconds(durationMs: number | null): string {
  return durationMs === null ? "-" : String(durationMs);
}
