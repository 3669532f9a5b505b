import type { Database } from "bun:sqlite";
import { hashKey } from "../../../src/auth/apiKey.ts";
import { DAY_MS } from "../../../src/lib/clock.ts";
import { seededRandom } from "../seededRandom.ts";
import { insertInBulk, sumUp } from "./bulkInsert.ts";

// A store of a gateway that is in use for months, for the console: its benchmark and its tests in a browser.

/** Times are milliseconds since 1970. */
export interface Months {
  readonly requests: number;
  /** The last request is admitted just before. */
  readonly untilMs: number;
  readonly accounts: number;
  readonly keys: number;
  readonly days: number;
}

/** A million requests of 90 days take about 20 s to write. */
export const aMillion = { requests: 1_000_000, accounts: 200, keys: 500, days: 90 } as const;

const PROVIDERS = ["openai", "openrouter", "anthropic", "local"] as const;
type Provider = (typeof PROVIDERS)[number];

/** Prices in nano-roubles per token; the operator pays `share` percent of them. The first provider has priority. */
interface MonthsModel {
  readonly id: string;
  readonly input: number;
  readonly output: number;
  readonly share: number;
  readonly providers: readonly [Provider, ...Provider[]];
  /** Milliseconds to the first byte, and per completion token. */
  readonly firstByteMs: number;
  readonly tokenMs: number;
}

const MODELS: readonly MonthsModel[] = [
  model("gpt-5", [125_000, 1_000_000], 80, ["openai", "openrouter"], [900, 12]),
  model("gpt-5-mini", [25_000, 200_000], 70, ["openai", "openrouter"], [500, 8]),
  model("gpt-5-nano", [5_000, 40_000], 60, ["openai"], [350, 5]),
  model("claude-opus-4-5", [500_000, 2_500_000], 85, ["anthropic"], [1400, 18]),
  model("claude-sonnet-4-5", [300_000, 1_500_000], 80, ["anthropic", "openrouter"], [1100, 14]),
  model("claude-haiku-4-5", [100_000, 500_000], 75, ["anthropic"], [500, 7]),
  model("deepseek/deepseek-chat", [27_000, 110_000], 60, ["openrouter"], [1500, 20]),
  model("deepseek/deepseek-r1", [55_000, 220_000], 65, ["openrouter"], [2500, 25]),
  model("meta/llama-4-maverick", [20_000, 60_000], 70, ["openrouter"], [700, 9]),
  model("qwen3-32b", [10_000, 30_000], 30, ["local"], [250, 22]),
  model("gemma-3-27b", [8_000, 16_000], 30, ["local"], [200, 18]),
  model("mistral-small", [10_000, 30_000], 40, ["local", "openrouter"], [220, 15]),
];

function model(
  id: string,
  [input, output]: readonly [number, number],
  share: number,
  providers: MonthsModel["providers"],
  [firstByteMs, tokenMs]: readonly [number, number],
): MonthsModel {
  return { id, input, output, share, providers, firstByteMs, tokenMs };
}

const LABELS = ["production", "staging", "notebook", "ci", "agents", "support bot", null] as const;
const FIRST_WORDS = [
  "north",
  "blue",
  "quick",
  "solid",
  "open",
  "silver",
  "delta",
  "prime",
  "terra",
  "nova",
];
const LAST_WORDS = [
  "labs",
  "works",
  "bank",
  "media",
  "soft",
  "clinic",
  "school",
  "logistics",
  "games",
  "studio",
];

const ROUBLE = 1_000_000_000;
const HOUR_MS = 3_600_000;
/** The provider that fails in the last hour. */
const FAILING: Provider = "openrouter";
/** Of 10,000 requests. The rest is done. */
const FAILED = 150;
const CANCELLED = 120;
const FAILED_OVER = 200;
const WRITTEN_OFF = 2;
const REFUNDED = 2;

/** The name of an account; `at` starts at 1. */
export function accountName(at: number): string {
  const first = FIRST_WORDS[at % FIRST_WORDS.length];
  const last = LAST_WORDS[Math.floor(at / FIRST_WORDS.length) % LAST_WORDS.length];
  const round = Math.floor(at / (FIRST_WORDS.length * LAST_WORDS.length));
  return round === 0 ? `${first}-${last}` : `${first}-${last}-${round + 1}`;
}

/** The text of a key; `at` starts at 1. */
function keyText(at: number): string {
  return `key ${at} of these months`;
}

/**
 * Makes a database at `path` as a gateway leaves it: the audit finds no problem. Few accounts make most requests, each
 * key prefers some models, nights are quiet. Accounts are credited when they are almost empty. Some requests fail, fail
 * over, are cancelled with an estimate, are refunded or written off in part. Two run: one of them for hours.
 */
export function fillMonths(path: string, months: Months): void {
  insertInBulk(path, (sqlite) => {
    const owners = insertOwners(sqlite, months);
    insertRequests(sqlite, months, owners);
    sumUp(sqlite);
  });
}

/** The config of this store, as TOML. Nothing listens at the addresses of its providers. */
export function monthsConfig(databasePath: string): string {
  const providers = PROVIDERS.map(
    (id) => `[[providers]]\nid = "${id}"\nkind = "${id === "anthropic" ? id : "openai"}"
base_url = "http://127.0.0.1:9/v1"\napi_key = "secret-of-${id}"\n`,
  );
  const models = MODELS.map(({ id, input, output, share, providers: routes }) =>
    [
      `[[models]]\nid = "${id}"\nrub_input_per_1m = ${input}\nrub_output_per_1m = ${output}`,
      "max_output_tokens = 32000\ncontext_tokens = 200000\n",
      ...routes.map(
        (provider, at) => `[[models.routes]]\nprovider = "${provider}"\npriority = ${at}
rub_cost_input_per_1m = ${part(input, share)}\nrub_cost_output_per_1m = ${part(output, share)}\n`,
      ),
    ].join("\n"),
  );
  const head = `[server]\nlisten = "127.0.0.1:0"\n\n[database]\npath = "${databasePath}"\n`;
  return [head, ...providers, ...models].join("\n");
}

function part(amount: number, percent: number): number {
  return Math.floor((amount * percent) / 100);
}

interface Owner {
  readonly accountId: number;
  readonly keyId: number;
  readonly models: readonly MonthsModel[];
}

/** Returns the keys. Keys with a small number belong to accounts with a small number, and make most requests. */
function insertOwners(sqlite: Database, { accounts, keys, days, untilMs }: Months): Owner[] {
  const { below, pick } = seededRandom(11);
  const startMs = untilMs - days * DAY_MS;
  const account = sqlite.prepare(
    "INSERT INTO accounts (id, name, overdraft, created_at) VALUES (?, ?, ?, ?)",
  );
  for (let id = 1; id <= accounts; id += 1)
    account.run(id, accountName(id), id % 20 === 0 ? 500 * ROUBLE : 0, startMs - below(DAY_MS));
  const key =
    sqlite.prepare(`INSERT INTO keys (id, public_id, account_id, hash, prefix, label, created_at, expires_at,
      revoked_at, last_used_at, budget) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`);
  return Array.from({ length: keys }, (_, at): Owner => {
    const id = at + 1;
    const accountId = id <= accounts ? id : 1 + below(Math.ceil(accounts / 4));
    key.run(
      id,
      `key_${id.toString(32).padStart(8, "0")}`,
      accountId,
      Buffer.from(hashKey(keyText(id))),
      `sk-tg-${id.toString(36).padStart(6, "0")}`,
      pick(LABELS),
      startMs - below(DAY_MS),
      id % 90 === 0 ? untilMs + (id / 90) * DAY_MS : null,
      null,
      untilMs - below(DAY_MS),
      id % 25 === 0 ? 5_000_000 * ROUBLE : null,
    );
    return { accountId, keyId: id, models: [pick(MODELS), pick(MODELS), pick(MODELS)] };
  });
}

const INSERT_REQUEST = `INSERT INTO requests (public_id, at, account_id, key_id, endpoint, model, provider,
    stream, status, price_input, price_cached_input, price_cache_write, price_cache_write_1h, price_output,
    figures_price, hold, charge, write_off, prompt_tokens, cached_tokens, completion_tokens, estimated,
    operator_cost, attempt_count, duration_ms, first_byte_ms, ledger_seq, balance_after)
  VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?10, ?10, ?12, 0, ?13, ?14, ?15, ?16, ?17, ?18, ?19, ?20, ?21,
    ?22, ?23, ?24, ?25)`;
const INSERT_ENTRY = `INSERT INTO ledger (account_id, seq, kind, amount, balance_after, ref, actor, note, at, refund_of)
  VALUES (?, ?, ?, ?, ?, ?, 'operator', ?, ?, ?)`;

function insertRequests(sqlite: Database, months: Months, owners: readonly Owner[]): void {
  const request = sqlite.prepare(INSERT_REQUEST);
  const attempt = sqlite.prepare("INSERT INTO attempts VALUES (?, ?, ?, ?, ?, ?)");
  const entry = sqlite.prepare(INSERT_ENTRY);
  const { below, chance } = seededRandom(7);
  const seqs = new Float64Array(months.accounts + 1);
  const balances = new Float64Array(months.accounts + 1);
  const timeOf = dayAndNight(months);
  for (let row = 1; row <= months.requests; row += 1) {
    const at = timeOf(row);
    // The cube makes few keys busy.
    const owner = owners[Math.floor(owners.length * (below(1e6) / 1e6) ** 3)] ?? owners[0];
    const asked = owner?.models[Math.min(below(4), 2)];
    if (owner === undefined || asked === undefined) throw new Error("there are no keys");
    const { accountId, keyId } = owner;
    const isLastHour = at > months.untilMs - HOUR_MS;
    const lot = below(10_000);
    const isFailing = isLastHour && asked.providers[0] === FAILING && chance(0.4);
    const status =
      lot < FAILED || isFailing ? "failed" : lot < FAILED + CANCELLED ? "cancelled" : "done";
    const isRunning = row === months.requests || row === months.requests - runningBefore(months);
    const isFailedOver =
      status === "done" && asked.providers.length > 1 && below(10_000) < FAILED_OVER;
    const provider = isFailedOver ? (asked.providers[1] ?? asked.providers[0]) : asked.providers[0];
    const isBilled = status !== "failed" && !isRunning;
    const prompt = isBilled ? 20 + Math.floor(8000 * (below(1000) / 1000) ** 3) : 0;
    const cached = chance(0.3) ? Math.floor(prompt / 2) : 0;
    const completion = isBilled ? 5 + Math.floor(2000 * (below(1000) / 1000) ** 2) : 0;
    const cachedPrice = Math.floor(asked.input / 10);
    const cost = (prompt - cached) * asked.input + cached * cachedPrice + completion * asked.output;
    const isWrittenOff = isBilled && below(10_000) < WRITTEN_OFF;
    const writeOff = isWrittenOff ? Math.floor(cost / 3) : 0;
    const charge = cost - writeOff;
    const now = { account: accountId, at };
    if (isBilled && (balances[accountId] ?? 0) < charge) {
      // The pace of the account decides how much it is credited with.
      const amount = (200 + below(20) * (months.accounts - accountId) + 5 * accountId) * ROUBLE;
      add(now, "credit", amount + charge, null, `invoice-${row}`, null);
    }
    if (isBilled) {
      seqs[accountId] = (seqs[accountId] ?? 0) + 1;
      balances[accountId] = (balances[accountId] ?? 0) - charge;
    }
    const seq = seqs[accountId] ?? 0;
    const firstByte = Math.floor(asked.firstByteMs * (0.6 + (below(1000) / 1000) ** 4 * 6));
    const duration = firstByte + Math.floor(completion * asked.tokenMs * (0.8 + below(400) / 1000));
    const attempts = isRunning
      ? 0
      : status === "failed"
        ? asked.providers.length
        : isFailedOver
          ? 2
          : 1;
    request.run(
      `req_${at.toString(32).padStart(9, "0")}${row.toString(32).padStart(11, "0")}`,
      at,
      accountId,
      keyId,
      keyId % 5 === 0 ? "responses" : "chat",
      asked.id,
      isBilled ? provider : null,
      below(3) > 0 ? 1 : 0,
      isRunning ? "running" : status,
      asked.input,
      cachedPrice,
      asked.output,
      2 * cost + 4000 * asked.output,
      charge,
      writeOff,
      prompt,
      cached,
      completion,
      status === "cancelled" && !isRunning ? 1 : 0,
      isBilled ? part(cost, asked.share) : null,
      attempts,
      isRunning ? null : duration,
      isBilled ? firstByte : null,
      isBilled ? seq : null,
      isBilled ? (balances[accountId] ?? 0) : null,
    );
    if (!isRunning && status === "failed")
      asked.providers.forEach((tried, n) => {
        const outcome = chance(0.3) ? "timeout" : `status ${chance(0.5) ? 503 : 429}`;
        attempt.run(
          row,
          n + 1,
          tried,
          outcome,
          outcome === "timeout" ? null : Number(outcome.slice(7)),
          300 + below(4000),
        );
      });
    if (!isRunning && isFailedOver) {
      attempt.run(row, 1, asked.providers[0], "status 503", 503, 200 + below(2000));
      attempt.run(row, 2, provider, "ok", 200, duration);
    }
    if (isBilled && charge > 0 && below(10_000) < REFUNDED)
      add(
        { ...now, at: at + HOUR_MS },
        "refund",
        charge,
        seq,
        `refund-${row}`,
        "the answer was cut",
      );
  }

  /** Adds an entry to the ledger of an account. */
  function add(
    { account, at }: { readonly account: number; readonly at: number },
    kind: "credit" | "refund",
    amount: number,
    refundOf: number | null,
    ref: string,
    note: string | null,
  ): void {
    seqs[account] = (seqs[account] ?? 0) + 1;
    balances[account] = (balances[account] ?? 0) + amount;
    entry.run(account, seqs[account], kind, amount, balances[account], ref, note, at, refundOf);
  }
}

/** How many requests before the last one the one was admitted that runs for hours. */
function runningBefore({ requests, days }: Months): number {
  return Math.ceil((requests / days / 24) * 3);
}

/** The time of each request, growing with its row. At noon there are five times as many as at midnight. */
function dayAndNight({ requests, untilMs, days }: Months): (row: number) => number {
  const startMs = untilMs - days * DAY_MS;
  const perDay = requests / days;
  return (row) => {
    const day = Math.floor((row - 1) / perDay);
    const share = (row - 1) / perDay - day;
    // The inverse of the share of a day's requests is close enough to a wave.
    const wave = share - Math.sin(2 * Math.PI * share) / 10;
    return Math.floor(startMs + (day + wave) * DAY_MS);
  };
}
