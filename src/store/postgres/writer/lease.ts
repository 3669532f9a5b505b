import { systemClock, type Clock } from "../../../lib/clock.ts";
import { SharedSession } from "../pooler.ts";
import { isLockTimeout } from "./failures.ts";
import { endReplica, SILENT_MS, type EndedReplica } from "./replicas.ts";
import { Session, statement, type Connect } from "./session.ts";
import { CLOCK_MS } from "./statements.ts";

export const BEAT_EVERY_MS = 2000;
/**
 * After this time without a successful heartbeat the replica admits nothing. It is less than SILENT_MS: no other replica can
 * have released its blocks yet.
 */
const VALID_MS = 10_000;
/**
 * A replica ends silent ones only when its own heartbeats have succeeded for this long. After an outage of the server all
 * replicas are silent, and each must have time for its next heartbeat: it waits for 7 s for an answer, and connects within 5 s.
 */
const STEADY_MS = 13_000;
/** Heartbeats further apart than this were not steady. */
const STEADY_GAP_MS = 2 * BEAT_EVERY_MS;
/** The wait before each next try to join again. */
const REJOIN_MS_MIN = 200;
const REJOIN_MS_MAX = 5000;

const JOIN = `INSERT INTO replicas (name, version, started_at, seen_at, last_batch) VALUES ($1, $2, ${CLOCK_MS}, ${CLOCK_MS}, 0) RETURNING id`;
/**
 * One row: whether the lease is still there, the smallest schema that a program must know, the number of live replicas with
 * this one, the silent ones, and the time of the server.
 */
export const BEAT = `WITH beat AS (
  UPDATE replicas SET seen_at = ${CLOCK_MS} WHERE id = $1::text::bigint AND ended_at IS NULL RETURNING id
), others AS (
  SELECT id, seen_at <= ${CLOCK_MS} - ${SILENT_MS} AS is_silent FROM replicas
  WHERE ended_at IS NULL AND id <> $1::text::bigint
)
SELECT (SELECT count(*) FROM beat) AS beats, (SELECT oldest FROM schema_version) AS oldest,
  (SELECT count(*) FROM others WHERE NOT is_silent) AS live,
  (SELECT coalesce(json_agg(id)::text, '[]') FROM others WHERE is_silent) AS silent, ${CLOCK_MS} AS now,
  pg_backend_pid() AS process`;

/** The server's clock less that of this machine. The true value differs by at most `withinMs`, half of the round trip. */
export interface ClockSkew {
  readonly ms: number;
  readonly withinMs: number;
}

/** What the owner of a lease is told. The calls must not throw. */
export interface LeaseListener {
  /** Another replica has ended this one. All holds are void. A new lease is looked for. */
  onLost(): void;
  /** There is a lease again. */
  onJoined(replicaId: number): void;
  /** This replica has ended another replica that sent no heartbeat. */
  onEnded(ended: EndedReplica): void;
  /** A heartbeat has measured how the clocks differ. */
  onClockSkew(skew: ClockSkew): void;
  /** A newer version has upgraded the schema, so that this one cannot work with it any more: the process must stop. */
  onOutdated(): void;
  /** A heartbeat failed, or the end of a silent replica. Both are tried again. */
  onError(error: unknown): void;
}

interface LeaseOptions {
  readonly connect: Connect;
  /** Shown to operators, such as the name of the machine. */
  readonly name: string;
  readonly version: string;
  /** The number of the schema that this program has. */
  readonly knownSchema: number;
  readonly listener: LeaseListener;
  readonly clock?: Clock;
  /** STEADY_MS unless given. */
  readonly steadyMs?: number;
}

/**
 * The right of this replica to reserve money, and to charge what it has reserved. Its number is the id of its row in
 * `replicas`. Others see by the clock of the database that the replica lives; the replica itself counts by its monotonic
 * clock.
 */
export class Lease {
  readonly #options: LeaseOptions;
  readonly #clock: Clock;
  #id: number | undefined;
  #session: Session | undefined;
  /** The process of the server that answers the session. A pooler may give it another one. */
  #process: unknown;
  #beganMs = -Infinity;
  /** Since when heartbeats are steady, in monotonic time. */
  #steadySinceMs = Infinity;
  #live = 1;
  #skew: ClockSkew | undefined;
  #timer: Timer | undefined;
  #isReleased = false;
  #running: Promise<void> = Promise.resolve();

  private constructor(options: LeaseOptions) {
    this.#options = options;
    this.#clock = options.clock ?? systemClock;
  }

  /** Joins the replicas. Throws ConnectionLost, and the server's errors. */
  static async take(options: LeaseOptions): Promise<Lease> {
    const lease = new Lease(options);
    try {
      await lease.#join();
      await lease.#beat();
    } catch (error) {
      lease.#session?.close();
      throw error;
    }
    lease.#next(BEAT_EVERY_MS);
    return lease;
  }

  /** Undefined while there is none: it was lost, or released. */
  get id(): number | undefined {
    return this.#id;
  }

  /** The time since the last successful heartbeat began. */
  get ageMs(): number {
    return this.#clock.monotonicMs() - this.#beganMs;
  }

  /** Requests may be admitted. */
  get isValid(): boolean {
    return this.#id !== undefined && this.ageMs <= VALID_MS;
  }

  /** The number of replicas with a recent heartbeat, this one included; 1 or more. */
  get liveReplicas(): number {
    return this.#live;
  }

  /** Of the last heartbeat. */
  get clockSkew(): ClockSkew | undefined {
    return this.#skew;
  }

  /** The database has refused this lease. */
  fenced(id: number): void {
    if (this.#id !== id) return;
    this.#id = undefined;
    this.#options.listener.onLost();
    if (!this.#isReleased) this.#next(REJOIN_MS_MIN);
  }

  /** Ends the replica in order: its blocks are free at once. Never throws: another replica does it later. */
  async release(): Promise<void> {
    this.#isReleased = true;
    clearTimeout(this.#timer);
    await this.#running;
    const id = this.#id;
    this.#id = undefined;
    try {
      if (id !== undefined) await endReplica(await this.#open(), id, { onlySilent: false });
    } catch {
      // The server cannot be reached. The replica is silent from now on.
    }
    this.#session?.close();
  }

  /** Stops without a word to the server, as a killed process does. */
  abandon(): void {
    this.#isReleased = true;
    clearTimeout(this.#timer);
    this.#session?.close();
  }

  #next(inMs: number, rejoinMs = REJOIN_MS_MIN): void {
    clearTimeout(this.#timer);
    if (this.#isReleased) return;
    this.#timer = setTimeout(() => {
      this.#running = this.#running.then(() => this.#step(rejoinMs));
    }, inMs).unref();
  }

  /** One heartbeat, or one try to join again. */
  async #step(rejoinMs: number): Promise<void> {
    if (this.#isReleased) return;
    const wasJoined = this.#id !== undefined;
    try {
      if (!wasJoined) this.#options.listener.onJoined(await this.#join());
      await this.#beat();
      if (this.#id !== undefined) this.#next(BEAT_EVERY_MS);
    } catch (error) {
      this.#options.listener.onError(error);
      const laterMs = Math.min(rejoinMs * 2, REJOIN_MS_MAX) * (0.5 + Math.random() / 2);
      this.#next(wasJoined ? REJOIN_MS_MIN : laterMs, laterMs);
    }
  }

  async #join(): Promise<number> {
    const { name, version } = this.#options;
    const session = await this.#open();
    const beganMs = this.#clock.monotonicMs();
    const [rows] = await session.run(statement(JOIN, name, version));
    this.#beganMs = beganMs;
    this.#steadySinceMs = Infinity;
    this.#id = Number(rows?.[0]?.["id"]);
    return this.#id;
  }

  async #beat(): Promise<void> {
    const id = this.#id;
    if (id === undefined) return;
    const session = await this.#open();
    const beganMs = this.#clock.monotonicMs();
    const beganAtMs = this.#clock.epochMs();
    const [rows] = await session.run(statement(BEAT, String(id)));
    const row = rows?.[0];
    if (row?.["beats"] !== 1n) return this.fenced(id);
    this.#process ??= row["process"];
    if (row["process"] !== this.#process) throw new SharedSession("another session has answered");
    if (beganMs - this.#beganMs > STEADY_GAP_MS) this.#steadySinceMs = Infinity;
    this.#steadySinceMs = Math.min(this.#steadySinceMs, beganMs);
    this.#beganMs = beganMs;
    const withinMs = (this.#clock.monotonicMs() - beganMs) / 2;
    this.#skew = { ms: Number(row["now"]) - (beganAtMs + withinMs), withinMs };
    this.#options.listener.onClockSkew(this.#skew);
    if (Number(row["oldest"]) > this.#options.knownSchema) this.#options.listener.onOutdated();
    this.#live = 1 + Number(row["live"]);
    const { steadyMs = STEADY_MS } = this.#options;
    if (beganMs - this.#steadySinceMs < steadyMs) return;
    for (const silent of JSON.parse(row["silent"] as string) as readonly number[])
      await this.#end(session, silent);
  }

  async #end(session: Session, silent: number): Promise<void> {
    const { listener } = this.#options;
    try {
      const ended = await endReplica(session, silent, { onlySilent: true });
      if (ended !== undefined) listener.onEnded(ended);
    } catch (error) {
      // The next heartbeat tries again.
      if (!isLockTimeout(error)) listener.onError(error);
    }
  }

  async #open(): Promise<Session> {
    if (this.#session === undefined || this.#session.isClosed) {
      this.#session = await Session.open(this.#options.connect);
      this.#process = undefined;
    }
    return this.#session;
  }
}
