import { asc, desc, sql } from "drizzle-orm";
import type { RequestStatus } from "../../contract/account/requestStatus.ts";
import { lazy } from "../../lib/lazy.ts";
import { attempts, requests } from "../schema/schema.ts";
import type { Connection } from "../sqlite/sqlite.ts";
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
 * Yields after each step of a few hundred rows, so the caller can pause there. Returns undefined if the position names no
 * request of the account.
 */
export type ReadRequestPage = (
  accountId: number,
  filter: PageFilter,
  after: PagePosition | undefined,
) => Generator<undefined, RequestPage | undefined>;

export function requestPages(connection: Connection): ReadRequestPage {
  const reads = lazy(() => prepareReads(connection));
  return function* (accountId, filter, after) {
    const start = reads().start(accountId, filter, after);
    if (start === undefined) return undefined;
    const search = new Search(reads(), { accountId, filter, after, start });
    yield* search.readNotDone();
    yield* search.readCharges();
    return search.page();
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
  *readNotDone(): Generator<undefined, void> {
    const { accountId, filter, start } = this.#page;
    for (const status of ENDED_NOT_DONE) {
      if (filter.status !== undefined && filter.status !== status) continue;
      let before: number | undefined = start.before;
      let count = 0;
      while (before !== undefined && count < this.#wanted) {
        const step = this.#reads.notDone({ accountId, status, before }, filter.model);
        this.#add(step.candidates);
        count += step.candidates.length;
        before = step.last;
        yield;
      }
    }
  }

  /** Reads charges, the one that ended last first: those after the last page, then those that it left. */
  *readCharges(): Generator<undefined, void> {
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
  *#scan(last: number, first: number): Generator<undefined, boolean> {
    const { accountId, filter, after, start } = this.#page;
    const left = {
      before: start.before,
      scannedTo: after?.scannedTo ?? start.newestCharge + 1,
    };
    let olderCharges = 0;
    for (let to = last; to >= first && this.#charged < this.#chargedMax; to -= STEP_ROWS) {
      if (++this.#chargeSteps === STEPS_BEFORE_COUNT) yield* this.#countCharges();
      const span = { accountId, from: Math.max(first, to - STEP_ROWS + 1), to };
      const charged = this.#reads.charged({ ...span, ...left }, filter);
      this.#add(charged);
      this.#charged += charged.length;
      this.#reached = span.from;
      const { count, newestRow } = this.#reads.charges(span);
      olderCharges = newestRow < this.#lastWanted() ? olderCharges + count : 0;
      if (olderCharges >= OLDER_CHARGES_MAX) return true;
      yield;
    }
    return false;
  }

  /** Without it, a list by a model that the account hardly used would read all of its requests. */
  *#countCharges(): Generator<undefined, void> {
    const { accountId, filter, after } = this.#page;
    if (filter.model === undefined) return;
    const count = yield* this.#reads.modelCharges(accountId, filter.model);
    // Pages before have listed some of them.
    if (after === undefined || count === 0) this.#chargedMax = count;
  }

  /** The rows that were found, and where the next page begins. */
  page(): RequestPage {
    const { limit, status, model } = this.#page.filter;
    const candidates = this.#newestFirst();
    const [listed, left] = [candidates.slice(0, limit), candidates.slice(limit)];
    const rows = this.#reads.rows(listed.map(({ id }) => id));
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

type Reads = ReturnType<typeof prepareReads>;

const NOT_DONE = `FROM requests INDEXED BY requests_not_done
  WHERE status = $status AND status <> 'done' AND account_id = $accountId AND id < $before`;
const CHARGES_OF_ACCOUNT = `FROM requests INDEXED BY requests_account_seq
  WHERE account_id = $accountId AND ledger_seq IS NOT NULL`;
const CHARGES = `${CHARGES_OF_ACCOUNT} AND ledger_seq BETWEEN $from AND $to`;
// Others than `done` are also found by the order of their rows, so they are left by that order alone.
const LEFT = "(id < $before OR ledger_seq < $scannedTo AND status = 'done')";

/** The reads of the search. Each is one step. */
function prepareReads(connection: Connection) {
  const { db, sqlite } = connection;
  const rowIdOf = sqlite.query<{ id: bigint }, { accountId: number; id: string }>(
    "SELECT id FROM requests WHERE public_id = $id AND account_id = $accountId",
  );
  const newestRow = sqlite.query<{ id: bigint | null }, []>("SELECT max(id) AS id FROM requests");
  const endOfCharges = (end: "min" | "max") =>
    sqlite.query<{ seq: bigint | null }, { accountId: number }>(
      `SELECT ${end}(ledger_seq) AS seq ${CHARGES_OF_ACCOUNT}`,
    );
  const [oldestCharge, newestCharge] = [endOfCharges("min"), endOfCharges("max")];
  const ofModel = (model: string | undefined) => (model === undefined ? {} : { model });
  const charges = sqlite.query<
    { count: bigint; newest: bigint | null },
    { accountId: number; from: number; to: number }
  >(`SELECT count(*) AS count, max(id) AS newest ${CHARGES}`);

  const running = (accountId: number, filter: PageFilter, before: number): readonly Candidate[] => {
    if (filter.status !== undefined && filter.status !== "running") return [];
    const { model, limit } = filter;
    const condition = model === undefined ? "" : "AND model = $model";
    return sqlite
      .query<{ id: bigint }, Record<string, string | number>[]>(
        `SELECT id ${NOT_DONE} ${condition} ORDER BY id DESC LIMIT ${limit + 1}`,
      )
      .all({ accountId, status: "running", before, ...ofModel(model) })
      .map(({ id }) => ({ id: Number(id), seq: undefined }));
  };
  const rowsOf = lazy(() =>
    receiptQuery(db, { rowId: requests.id })
      .where(sql`${requests.id} IN (SELECT value FROM json_each(${sql.placeholder("ids")}))`)
      .orderBy(desc(requests.id))
      .prepare(),
  );
  const attemptsOf = lazy(() =>
    db
      .select()
      .from(attempts)
      .where(sql`${attempts.requestId} IN (SELECT value FROM json_each(${sql.placeholder("ids")}))`)
      .orderBy(asc(attempts.requestId), asc(attempts.n))
      .prepare(),
  );

  return {
    modelCharges: modelCharges(connection),

    /** All in one snapshot: what ends or arrives after it belongs to another page. */
    start: (
      accountId: number,
      filter: PageFilter,
      after: PagePosition | undefined,
    ): Start | undefined =>
      sqlite.transaction(() => {
        const last = after && rowIdOf.get({ accountId, id: after.id });
        if (last === null) return undefined;
        const before = last === undefined ? Number(newestRow.get()?.id ?? 0) + 1 : Number(last.id);
        return {
          before,
          newestCharge: Number(newestCharge.get({ accountId })?.seq ?? 0),
          oldestCharge: Number(oldestCharge.get({ accountId })?.seq ?? 1),
          running: running(accountId, filter, before),
        };
      })(),

    /** `last`: the row id at which the next step goes on; undefined after the last one. */
    notDone(
      place: { accountId: number; status: RequestStatus; before: number },
      model: string | undefined,
    ): { readonly candidates: readonly Candidate[]; readonly last: number | undefined } {
      const matches = model === undefined ? "1" : "model = $model";
      const rows = sqlite
        .query<{ id: bigint; matches: bigint }, Record<string, string | number>[]>(
          `SELECT id, ${matches} AS matches ${NOT_DONE} ORDER BY id DESC LIMIT ${STEP_ROWS}`,
        )
        .all({ ...place, ...ofModel(model) });
      return {
        candidates: rows
          .filter(({ matches }) => matches === 1n)
          .map(({ id }) => ({ id: Number(id), seq: undefined })),
        last: rows.length < STEP_ROWS ? undefined : Number(rows.at(-1)?.id),
      };
    },

    /** The requests that match and are left to be listed. */
    charged(
      span: { accountId: number; from: number; to: number; before: number; scannedTo: number },
      { status, model }: PageFilter,
    ): readonly Candidate[] {
      const conditions = [
        LEFT,
        ...(status === undefined ? [] : ["status = 'done'"]),
        ...(model === undefined ? [] : ["model = $model"]),
      ];
      return sqlite
        .query<{ id: bigint; seq: bigint }, Record<string, string | number>[]>(
          `SELECT id, ledger_seq AS seq ${CHARGES} AND ${conditions.join(" AND ")}`,
        )
        .all({ ...span, ...ofModel(model) })
        .map(({ id, seq }) => ({ id: Number(id), seq: Number(seq) }));
    },

    /** All charges of a span: how many, and the newest of their rows. */
    charges(span: { accountId: number; from: number; to: number }) {
      const { count = 0n, newest = null } = charges.get(span) ?? {};
      return { count: Number(count), newestRow: Number(newest ?? 0) };
    },

    /** The rows with these ids, newest first, with their attempts. */
    rows(ids: readonly number[]): readonly FoundRow[] {
      const list = { ids: JSON.stringify(ids) };
      return sqlite.transaction(() => {
        const recorded = Map.groupBy(attemptsOf().all(list), ({ requestId }) => requestId);
        return rowsOf()
          .all(list)
          .map((row) =>
            Object.assign(row, { attempts: recorded.get(row.rowId) ?? onlyAttempt(row) }),
          );
      })();
    },
  };
}
