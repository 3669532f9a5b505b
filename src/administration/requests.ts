import { Type } from "@sinclair/typebox";
import { requestStatuses } from "../contract/account/requestStatus.ts";
import {
  billedCount,
  lastCsvFields,
  figures,
  firstCsvFields,
  isExtra,
  type Figure,
} from "../contract/figures.ts";
import { rareZeros } from "../contract/figureParts.ts";
import {
  RequestDetailDocument,
  requestDetailDocument,
  RequestDocument,
  requestDocument,
} from "../contract/operator/request.ts";
import type { PricingNote } from "../contract/priceList.ts";
import { csvOf } from "../lib/csv.ts";
import { formatRoubles } from "../lib/money.ts";
import { fields, pricePerMillion, shortTime, table, visible } from "../lib/terminal.ts";
import {
  NotFoundError,
  type AttemptRecord,
  type ReceiptRow,
  type RequestFilter,
  type RequestRow,
  type Store,
} from "../store/store.ts";
import { rowLimit } from "./balance.ts";
import {
  anyText,
  chosen,
  command,
  csvFlag,
  operation,
  optional,
  required,
  type Group,
} from "./operation.ts";
import { InvalidValue, pastTime } from "./values.ts";

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
  ...firstCsvFields,
  "estimated",
  "cost_rub",
  "write_off_rub",
  "attempt_count",
  "duration_ms",
  "first_byte_ms",
  ...lastCsvFields,
] as const;

/** The period of a report. */
export const period = {
  since: optional(
    "--since <time>",
    "start: duration back from now such as 7d, or a date: 2026-01-31",
    pastTime,
  ),
  until: optional("--until <time>", "end, exclusive: the same forms", pastTime),
};

/** Throws InvalidValue for a period that ends before it starts. */
export function checkPeriod({
  since,
  until,
}: {
  readonly since: number | undefined;
  readonly until: number | undefined;
}): void {
  if (since !== undefined && until !== undefined && since >= until)
    throw new InvalidValue("--since must be earlier than --until");
}

/** Reports only this account. */
export const onlyAccount = optional("--account <name>", "only this account", anyText);

const list = command({
  name: "requests",
  doc: "list requests and their outcome, the one recorded last first",
  input: {
    account: onlyAccount,
    status: {
      ...optional("--status <status>", "only requests with this status", chosen(requestStatuses)),
      choices: requestStatuses,
    },
    key: optional("--key <id>", "only requests of this key", anyText),
    model: optional("--model <id>", "only requests for this model", anyText),
    ...period,
    csv: csvFlag,
    limit: rowLimit("requests"),
  },
  output: Type.Array(RequestDocument),
  effects: [],
  access: "report",
  check: checkPeriod,
  async run({ store }, { limit, ...filter }) {
    const { account, key } = filter;
    if (account !== undefined) await store.accounts.findOrThrow(account);
    if (key !== undefined) await store.keys.findOrThrow(key);
    const rows = await rowsOf(store, filter, limit);
    return { document: rows.map(requestDocument), rows };
  },
  csv: ({ document }) =>
    csvOf(
      LIST_COLUMNS,
      document.map((one) => ({ ...rareZeros, ...one })),
    ),
  text({ rows }, { toPaste }, { account, status, key, model, since, until }) {
    if (rows.length > 0) return listText(rows);
    return [account, status, key, model, since, until].every((one) => one === undefined)
      ? visible(`no requests yet: ${toPaste("keys", "create", "--account", "NAME")} issues a key`)
      : "no matching requests: omit some of --account, --status, --key, --model, --since, --until";
  },
});

/** All that is asked for, however many rows have to be looked at. */
async function rowsOf(store: Store, filter: RequestFilter, limit: number): Promise<RequestRow[]> {
  const rows: RequestRow[] = [];
  for (let before: number | undefined; ;) {
    const page = await store.requests.list(filter, { limit: limit - rows.length, before });
    rows.push(...page.rows);
    before = page.next?.row;
    if (before === undefined || rows.length >= limit) return rows;
  }
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

const show = operation({
  name: "requests show",
  doc: "show one request with its attempts and prices",
  route: "GET /api/requests/:id",
  input: {
    id: required("<id>", "request id such as req_01jd...: the x-request-id of the answer", anyText),
  },
  output: RequestDetailDocument,
  effects: [],
  access: "report",
  async run({ store }, { id }) {
    const request = await store.requests.find(id);
    if (request === undefined)
      throw new NotFoundError(
        `there is no request ${JSON.stringify(id)}, or it is older than [database] keep_requests: \`tollgate requests\` lists the latest`,
      );
    const attempts = await store.requests.attempts(id);
    return { document: requestDetailDocument(request, attempts), request, attempts };
  },
  text: ({ request, attempts }) => `${requestText(request)}\n\n${attemptsText(attempts)}`,
});

function requestText(row: ReceiptRow): string {
  return fields([
    ["request", row.id],
    ["time", shortTime(row.at)],
    ["account", row.account],
    ["key", row.key],
    ["endpoint", row.stream ? `${row.endpoint}, streamed` : row.endpoint],
    ["model", row.model],
    ...(row.pricing === null ? [] : [["prices of", pricingText(row.pricing)] as const]),
    ["provider", row.provider ?? "-"],
    ["status", row.status],
    ...figures
      .filter((figure: Figure) => !isExtra(figure) || row[figure.name] > 0)
      .map((figure: Figure) => [labelOf(figure), countText(figure, row)] as const),
    ["cost, RUB", `${formatRoubles(row.charge)}${row.estimated ? " (estimated)" : ""}`],
    ["refunded, RUB", formatRoubles(row.refunded)],
    ["write-off, RUB", formatRoubles(row.writeOff)],
    ["held, RUB", formatRoubles(row.hold)],
    ["provider cost, RUB", row.operatorCost === null ? "-" : formatRoubles(row.operatorCost)],
    ["first byte, ms", milliseconds(row.firstByteMs)],
    ["duration, ms", milliseconds(row.durationMs)],
  ]);
}

/** Such as `plan wholesale (gpt-*), flex, prompts from 272001 tokens, 92.5 RUB for a dollar`. */
function pricingText(note: PricingNote): string {
  const { plan, plan_rule, service_tier, from_prompt_tokens, usd_rate } = note;
  return [
    ...(plan === undefined ? [] : [`plan ${plan} (${plan_rule ?? ""})`]),
    ...(service_tier === undefined ? [] : [`service tier ${service_tier}`]),
    ...(from_prompt_tokens === undefined ? [] : [`prompts from ${from_prompt_tokens} tokens`]),
    ...(usd_rate === undefined ? [] : [`${usd_rate} RUB for a dollar`]),
  ].join(", ");
}

function labelOf({ label, words: [inEnglish] }: Figure): string {
  return label ?? inEnglish.toLowerCase();
}

function countText({ name, price, unit }: Figure, row: ReceiptRow): string {
  const count = billedCount(row, name);
  const ofOne = row.price[price.name];
  return unit.things === "tokens"
    ? `${count} tokens at ${pricePerMillion(ofOne)} RUB per 1M`
    : `${count} at ${formatRoubles(ofOne)} RUB`;
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

export const requests: Group = {
  name: "requests",
  doc: list.doc,
  operations: [list, show],
};
