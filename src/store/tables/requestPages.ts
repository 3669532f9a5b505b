import { asc, desc, sql } from "drizzle-orm";
import type { RequestStatus } from "../../contract/account/requestStatus.ts";
import { lazy } from "../../lib/lazy.ts";
import { attempts, requests } from "../schema/schema.ts";
import type { Connection } from "../connection.ts";
import type { Steps } from "../steps.ts";
import type { AttemptRecord } from "../writer/requestRecord.ts";
import { modelCharges } from "./modelCharges.ts";
import { onlyAttempt, receiptQuery, type ReceiptRow } from "./requests.ts";

/** Which requests of an account are listed. `limit`: the most of one page. */
export interface PageFilter {
  readonly status: RequestStatus | undefined;
  readonly model: string | undefined;
  readonly limit: number;
}

/**
 * Where a list goes on. A charge is named by its number in the account's ledger. A request is left to be listed if its
 * row is older than that of `id`, or if it is done and its charge is below `scannedTo`.
 */
export interface PagePosition {
  /** The public id of the last request that was listed. */
  readonly id: string;
  /** The newest charge at that time. */
  readonly newest: number;
  /** No charge after this one, up to `newest`, is left to be listed. */
  readonly leftFrom: number;
  /** All charges from this one to `newest` were looked at. */
  readonly scannedTo: number;
}

export interface PageRow extends ReceiptRow {
  /** The ended attempts, oldest first. */
  readonly attempts: readonly AttemptRecord[];
}

export interface RequestPage {
  /** The one recorded last first. */
  readonly rows: readonly PageRow[];
  /** Undefined at the end. */
  readonly next: PagePosition | undefined;
}

/**
 * Reads a page of the requests of an account, the one recorded last first. A request is recorded when it ends, or when it
 * is open for a second, and keeps its place. So all pages together have each request once that was there at the first
 * page, and none that was recorded later. A page is shorter than its limit if requests of it are folded, or no longer
 * match, while it is read.
 *
 * The caller can pause after each step of a few hundred rows. Returns undefined if the position names no request of the
 * account.
 */
export type ReadRequestPage = (
  accountId: number,
  filter: PageFilter,
  after: PagePosition | undefined,
) => Steps<RequestPage | undefined>;

export function requestPages(connection: Connection): ReadRequestPage {
  const reads = lazy(() => readsOf(connection));
  return function* (accountId, filter, after) {
    const start = yield* reads().start(accountId, filter, after);
    if (start === undefined) return undefined;
    const search = new Search(reads(), { accountId, filter, after, start });
    yield* search.readNotDone();
    yield* search.readCharges();
    return yield* search.page();
  };
}

/** The rows that one step reads. */
const STEP_ROWS = 250;
/**
 * No index has the requests of an account in the order of their rows. Charges are found in the order in which requests
 * ended. A request that ran long ended after requests with newer rows. After as many charges with older rows as this, no
 * newer row is expected. With more requests of an account open at once a few may be listed late, but none is left out.
 */
const OLDER_CHARGES_MAX = 1000;

/** A list by model that is not complete after so many steps learns how many charges there are. */
const STEPS_BEFORE_COUNT = 10;

/** `running` is read at the start. */
const ENDED_NOT_DONE = ["failed", "cancelled", "interrupted"] as const;

/** A request that may be listed. `seq`: its charge, if it is known. */
interface Candidate {
  readonly id: number;
  readonly seq: number | undefined;
}

/** `last`: the row id at which the next step goes on; undefined after the last one. */
interface NotDoneStep {
  readonly candidates: readonly Candidate[];
  readonly last: number | undefined;
}

/** What was there when the page was asked for. */
interface Start {
  /** Rows with an id below this one are left to be listed. */
  readonly before: number;
  /** 0 without a charge. */
  readonly newestCharge: number;
  readonly oldestCharge: number;
  /** The newest that match. */
  readonly running: readonly Candidate[];
}

interface Page {
  readonly accountId: number;
  readonly filter: PageFilter;
  readonly after: PagePosition | undefined;
  readonly start: Start;
}

/** The search for the requests of one page. */
class Search {
  readonly #reads: Reads;
  readonly #page: Page;
  /** One more than the page has, which tells whether there is a next page. */
  readonly #wanted: number;
  /** By row id. A cancelled request with a charge is found twice. */
  readonly #found = new Map<number, Candidate>();
  /** All charges below this one are left to be looked at. */
  #reached: number;
  /** Steps of charges, and what they found. */
  #chargeSteps = 0;
  #charged = 0;
  /** At most as many charges can be found. */
  #chargedMax = Infinity;

  constructor(reads: Reads, page: Page) {
    this.#reads = reads;
    this.#page = page;
    this.#wanted = page.filter.limit + 1;
    this.#reached = page.start.newestCharge + 1;
    // First of all: they may be found again as ended, and must not be missed while they end.
    this.#add(page.start.running);
  }

  /** Reads the requests that ended otherwise than `done`, newest first. */
  *readNotDone(): Steps<void> {
    const { accountId, filter, start } = this.#page;
    for (const status of ENDED_NOT_DONE) {
      if (filter.status !== undefined && filter.status !== status) continue;
      let before: number | undefined = start.before;
      let count = 0;
      while (before !== undefined && count < this.#wanted) {
        const step: NotDoneStep = yield* this.#reads.notDone(
          { accountId, status, before },
          filter.model,
        );
        this.#add(step.candidates);
        count += step.candidates.length;
        before = step.last;
        yield;
      }
    }
  }

  /** Reads charges, the one that ended last first: those after the last page, then those that it left. */
  *readCharges(): Steps<void> {
    const { filter, after, start } = this.#page;
    if (filter.status !== undefined && filter.status !== "done") return;
    if (after !== undefined) {
      if (yield* this.#scan(start.newestCharge, after.newest + 1)) return;
      // A client can invent the numbers of a position.
      this.#reached = Math.min(after.leftFrom, start.newestCharge) + 1;
    }
    yield* this.#scan(this.#reached - 1, start.oldestCharge);
  }

  /** Looks at the charges from `last` down to `first`. Returns true if it stopped before, with all that is wanted. */
  *#scan(last: number, first: number): Steps<boolean> {
    const { accountId, filter, after, start } = this.#page;
    const left = {
      before: start.before,
      scannedTo: after?.scannedTo ?? start.newestCharge + 1,
    };
    let olderCharges = 0;
    for (let to = last; to >= first && this.#charged < this.#chargedMax; to -= STEP_ROWS) {
      if (++this.#chargeSteps === STEPS_BEFORE_COUNT) yield* this.#countCharges();
      const span = { accountId, from: Math.max(first, to - STEP_ROWS + 1), to };
      const charged = yield* this.#reads.charged({ ...span, ...left }, filter);
      this.#add(charged);
      this.#charged += charged.length;
      this.#reached = span.from;
      const { count, newestRow } = yield* this.#reads.charges(span);
      olderCharges = newestRow < this.#lastWanted() ? olderCharges + count : 0;
      if (olderCharges >= OLDER_CHARGES_MAX) return true;
      yield;
    }
    return false;
  }

  /** Without it, a list by a model that the account hardly used would read all of its requests. */
  *#countCharges(): Steps<void> {
    const { accountId, filter, after } = this.#page;
    if (filter.model === undefined) return;
    const count = yield* this.#reads.modelCharges(accountId, filter.model);
    // Pages before have listed some of them.
    if (after === undefined || count === 0) this.#chargedMax = count;
  }

  /** The rows that were found, and where the next page begins. */
  *page(): Steps<RequestPage> {
    const { limit, status, model } = this.#page.filter;
    const candidates = this.#newestFirst();
    const [listed, left] = [candidates.slice(0, limit), candidates.slice(limit)];
    const rows = yield* this.#reads.rows(listed.map(({ id }) => id));
    return {
      rows: rows.filter(
        (row) => row.status === (status ?? row.status) && row.model === (model ?? row.model),
      ),
      next: this.#next(listed, left, rows.at(-1)),
    };
  }

  /** `last`: the row of the page that is the last one in the order of the rows. */
  #next(
    listed: readonly Candidate[],
    left: readonly Candidate[],
    last: FoundRow | undefined,
  ): PagePosition | undefined {
    const { after, start } = this.#page;
    const id = last !== undefined && last.rowId < start.before ? last.id : after?.id;
    if (left.length === 0 || id === undefined) return undefined;
    const isLateLeft = left.some((candidate) => this.#isLate(candidate));
    const scannedTo = isLateLeft ? (listed.at(-1)?.seq ?? 0) : this.#reached;
    return {
      id,
      newest: start.newestCharge,
      leftFrom: Math.max(this.#reached - 1, ...left.map(({ seq = 0 }) => seq)),
      scannedTo: Math.min(scannedTo, after?.scannedTo ?? scannedTo),
    };
  }

  /** Its row is newer than the last one of the page before. */
  #isLate({ id }: Candidate): boolean {
    return id >= this.#page.start.before;
  }

  #add(candidates: readonly Candidate[]): void {
    for (const { id, seq } of candidates)
      this.#found.set(id, { id, seq: seq ?? this.#found.get(id)?.seq });
  }

  /** The row id of the last request that is wanted so far; 0 while there are too few. */
  #lastWanted(): number {
    if (this.#found.size < this.#wanted) return 0;
    return this.#newestFirst()[this.#wanted - 1]?.id ?? 0;
  }

  /** By row. Before them the late ones, by charge: then a number of a charge tells which of them are left. */
  #newestFirst(): readonly Candidate[] {
    const late: Candidate[] = [];
    const others: Candidate[] = [];
    for (const candidate of this.#found.values())
      (this.#isLate(candidate) ? late : others).push(candidate);
    late.sort((one, other) => (other.seq ?? 0) - (one.seq ?? 0));
    return [...late, ...others.sort((one, other) => other.id - one.id)];
  }
}

/** A row of the page with its row id. */
interface FoundRow extends PageRow {
  readonly rowId: number;
}

type Reads = ReturnType<typeof readsOf>;

// Others than `done` are also found by the order of their rows, so they are left by that order alone.
const LEFT = "(id < $before OR ledger_seq < $scannedTo AND status = 'done')";

/** The reads of the search. Each is one step. */
function readsOf(connection: Connection) {
  const { dialect } = connection;
  const prepared = lazy(() => prepareRows(connection));
  const rowId = dialect.idBesideIndex;
  const notDone = `FROM requests ${dialect.using("requests_not_done")}
    WHERE status = $status AND status <> 'done' AND account_id = $accountId AND ${rowId} < $before`;
  const chargesOfAccount = `FROM requests ${dialect.using("requests_account_seq")}
    WHERE account_id = $accountId AND ledger_seq IS NOT NULL`;
  const charges = `${chargesOfAccount} AND ledger_seq BETWEEN $from AND $to`;
  const ofModel = (model: string | undefined) => (model === undefined ? {} : { model });
  const endOfCharges = function* (
    snapshot: Connection,
    end: "min" | "max",
    accountId: number,
  ): Steps<number | undefined> {
    const row = yield* snapshot.row<{ seq: bigint | null }>(
      `SELECT ${end}(ledger_seq) AS seq ${chargesOfAccount}`,
      { accountId },
    );
    return row === undefined || row.seq === null ? undefined : Number(row.seq);
  };
  const running = function* (
    snapshot: Connection,
    accountId: number,
    { status, model, limit }: PageFilter,
    before: number,
  ): Steps<readonly Candidate[]> {
    if (status !== undefined && status !== "running") return [];
    const condition = model === undefined ? "" : "AND model = $model";
    const rows = yield* snapshot.rows<{ id: bigint }>(
      `SELECT id ${notDone} ${condition} ORDER BY ${rowId} DESC LIMIT ${limit + 1}`,
      { accountId, status: "running", before, ...ofModel(model) },
    );
    return rows.map(({ id }) => ({ id: Number(id), seq: undefined }));
  };
  /** The row of the position; undefined: no request of the account. Without a position: behind the newest row. */
  const firstRow = function* (
    snapshot: Connection,
    accountId: number,
    after: PagePosition | undefined,
  ): Steps<number | undefined> {
    if (after === undefined) {
      const newest = yield* snapshot.row<{ id: bigint | null }>(
        "SELECT max(id) AS id FROM requests",
      );
      return Number(newest?.id ?? 0) + 1;
    }
    const last = yield* snapshot.row<{ id: bigint }>(
      "SELECT id FROM requests WHERE public_id = $id AND account_id = $accountId",
      { accountId, id: after.id },
    );
    return last && Number(last.id);
  };

  return {
    modelCharges: modelCharges(connection),

    /** All in one snapshot: what ends or arrives after it belongs to another page. */
    start: (accountId: number, filter: PageFilter, after: PagePosition | undefined) =>
      connection.inSnapshot(function* (snapshot): Steps<Start | undefined> {
        const before = yield* firstRow(snapshot, accountId, after);
        if (before === undefined) return undefined;
        return {
          before,
          newestCharge: (yield* endOfCharges(snapshot, "max", accountId)) ?? 0,
          oldestCharge: (yield* endOfCharges(snapshot, "min", accountId)) ?? 1,
          running: yield* running(snapshot, accountId, filter, before),
        };
      }),

    *notDone(
      place: { accountId: number; status: RequestStatus; before: number },
      model: string | undefined,
    ): Steps<NotDoneStep> {
      const matches = model === undefined ? "1" : "CASE WHEN model = $model THEN 1 ELSE 0 END";
      const rows = yield* connection.rows<{ id: bigint; matches: bigint | number }>(
        `SELECT id, ${matches} AS matches ${notDone} ORDER BY ${rowId} DESC LIMIT ${STEP_ROWS}`,
        { ...place, ...ofModel(model) },
      );
      return {
        candidates: rows
          .filter((row) => Number(row.matches) === 1)
          .map(({ id }) => ({ id: Number(id), seq: undefined })),
        last: rows.length < STEP_ROWS ? undefined : Number(rows.at(-1)?.id),
      };
    },

    /** The requests that match and are left to be listed. */
    *charged(
      span: { accountId: number; from: number; to: number; before: number; scannedTo: number },
      { status, model }: PageFilter,
    ): Steps<readonly Candidate[]> {
      const conditions = [
        LEFT,
        ...(status === undefined ? [] : ["status = 'done'"]),
        ...(model === undefined ? [] : ["model = $model"]),
      ];
      const rows = yield* connection.rows<{ id: bigint; seq: bigint }>(
        `SELECT id, ledger_seq AS seq ${charges} AND ${conditions.join(" AND ")}`,
        { ...span, ...ofModel(model) },
      );
      return rows.map(({ id, seq }) => ({ id: Number(id), seq: Number(seq) }));
    },

    /** All charges of a span: how many, and the newest of their rows. */
    *charges(span: { accountId: number; from: number; to: number }) {
      const row = yield* connection.row<{ count: bigint; newest: bigint | null }>(
        `SELECT count(*) AS count, max(id) AS newest ${charges}`,
        span,
      );
      return { count: Number(row?.count ?? 0), newestRow: Number(row?.newest ?? 0) };
    },

    /** The rows with these ids, newest first, with their attempts. */
    rows: (ids: readonly number[]) =>
      connection.inSnapshot(function* (snapshot): Steps<readonly FoundRow[]> {
        if (ids.length === 0) return [];
        const list = { ids: JSON.stringify(ids) };
        // On PostgreSQL a snapshot has a connection of its own.
        const { rowsOf, attemptsOf } = snapshot === connection ? prepared() : prepareRows(snapshot);
        const recorded = Map.groupBy(yield* attemptsOf.all(list), ({ requestId }) => requestId);
        return (yield* rowsOf.all(list)).map((row) =>
          Object.assign(row, { attempts: recorded.get(row.rowId) ?? onlyAttempt(row) }),
        );
      }),
  };
}

/** The queries for the rows and the attempts of `ids`, a JSON array. */
function prepareRows(connection: Connection) {
  const { db, dialect } = connection;
  const ids = sql`${sql.placeholder("ids")}`;
  return {
    rowsOf: connection.prepare(
      receiptQuery(db, { rowId: requests.id })
        .where(dialect.isIn(sql`${requests.id}`, ids))
        .orderBy(desc(requests.id)),
    ),
    attemptsOf: connection.prepare(
      db
        .select()
        .from(attempts)
        .where(dialect.isIn(sql`${attempts.requestId}`, ids))
        .orderBy(asc(attempts.requestId), asc(attempts.n)),
    ),
  };
}
