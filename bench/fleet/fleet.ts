import { assert } from "../../src/lib/assert.ts";
import type { Hold, HoldResult } from "../../src/billing/hold.ts";
import { OpenMeters } from "../../src/billing/openMeters.ts";
import { Holds } from "../../src/billing/holds.ts";
import { SERVER_PACE } from "../../src/store/postgres/writer/writer.ts";
import { Pace } from "../../src/store/writer/pace.ts";
import { PATIENCE } from "../../src/store/postgres/writer/writer.ts";
import type { GroupEffect, RequestRecord } from "../../src/store/store.ts";
import { WriteQueue } from "../../src/store/writer/writeQueue.ts";
import type { OutgoingBatch } from "../../src/store/writer/writer.ts";
import { seededRandom } from "../../test/support/seededRandom.ts";
import { requestRecord, runningRecord } from "../../test/support/store/recordedRequest.ts";
import { noCounts, StoreModel, type ServiceTime, type StoreCounts } from "./storeModel.ts";
import { VirtualTime } from "./virtualTime.ts";

export interface FleetOptions {
  readonly replicas: number;
  readonly accounts: number;
  /** Requests a second over all replicas. */
  readonly rate: number;
  /** The n-th account has requests in proportion to 1 / n ** zipf. */
  readonly zipf: number;
  /** The mean time of a request at its provider. The times are exponentially distributed. */
  readonly requestMs: number;
  /** What each account has at first, what a request holds, and what it costs. In nano-roubles. */
  readonly balance: bigint;
  readonly hold: bigint;
  readonly charge: bigint;
  /** All requests of an account go to one replica, as with a load balancer that balances by key. */
  readonly isSticky: boolean;
  readonly service: ServiceTime;
  readonly warmUpMs: number;
  readonly measuredMs: number;
  readonly seed: number;
}

export interface FleetFigures {
  /** More requests came than ended. The other figures mean little, and the run may have been given up. */
  readonly isBehind: boolean;
  readonly seconds: number;
  readonly counts: StoreCounts;
  readonly requests: number;
  /** Requests that waited for a block, and how long. */
  readonly waits: readonly number[];
  /** From the end of a request to its commit. */
  readonly settles: readonly number[];
  /** Of the whole run: each request is charged, or refused for lack of money. */
  readonly charged: number;
  readonly refused: number;
  readonly started: number;
}

const HOLD_WAIT_MS = 10_000;
/** As `LAST_USED_STEP_MS` of the gateway. */
const LAST_USED_STEP_S = 60;
const NOTIFIED_MS = 1;
/**
 * A fleet is behind if so many seconds of requests wait for a block or for their commit at the end. With more of them the
 * run is given up.
 */
const BEHIND_S = 0.5;
const GIVEN_UP_S = 1.5;
/** Not more than a burst at a low rate. */
const STUCK_MIN = 100;

/**
 * Runs a fleet in virtual time. The holds, the queue of the writer and the rows of open requests are the code of the
 * product. The store and the load are models. It throws if money appears or vanishes.
 */
export function simulateFleet(options: FleetOptions): FleetFigures {
  return new Fleet(options).run();
}

class Fleet {
  readonly options: FleetOptions;
  readonly time = new VirtualTime();
  readonly store: StoreModel;
  readonly fraction: () => number;
  readonly #load: Zipf;
  readonly #replicas: readonly Replica[];
  /** Requests that have begun and are not over, and those of them that their providers have. */
  open = 0;
  atProviders = 0;
  started = 0;
  charged = 0;
  refused = 0;
  #requests = 0;
  waits: number[] = [];
  settles: number[] = [];

  constructor(options: FleetOptions) {
    this.options = options;
    this.fraction = fractions(options.seed);
    this.#load = new Zipf(options.accounts, options.zipf);
    this.store = new StoreModel({
      time: this.time,
      service: options.service,
      balance: options.balance,
      hottest: this.#load.idOf(0),
      onWanted: (accountId) => {
        for (const { holds } of this.#replicas)
          this.time.in(NOTIFIED_MS, () => holds.wanted(accountId));
      },
    });
    this.#replicas = Array.from({ length: options.replicas }, (_, id) => new Replica(this, id));
  }

  get #stuck(): number {
    return this.open - this.atProviders;
  }

  run(): FleetFigures {
    const { warmUpMs, measuredMs } = this.options;
    const endMs = warmUpMs + measuredMs;
    const { rate } = this.options;
    let isBehind = false;
    let counts = noCounts();
    this.time.run(
      () => {
        this.#arrive(endMs);
        this.time.in(warmUpMs, () => {
          this.store.counts = noCounts();
          this.#requests = 0;
          this.waits = [];
          this.settles = [];
        });
        this.time.in(endMs, () => {
          counts = { ...this.store.counts };
          isBehind = this.#stuck > rate * BEHIND_S;
        });
      },
      () =>
        this.#stuck > rate * GIVEN_UP_S + STUCK_MIN || (this.time.nowMs > endMs && this.open === 0),
    );
    const { waits, settles } = this;
    const isGivenUp = this.open > 0;
    if (!isGivenUp) {
      this.time.run(() => {
        for (const { holds } of this.#replicas) holds.close();
      });
      this.#check();
    }
    const { started, charged, refused } = this;
    const requests = this.#requests;
    isBehind ||= isGivenUp;
    return {
      isBehind,
      seconds: measuredMs / 1000,
      counts,
      requests,
      waits,
      settles,
      started,
      charged,
      refused,
    };
  }

  /** One request, and the next one after it. */
  #arrive(endMs: number): void {
    const { rate, replicas, isSticky } = this.options;
    this.time.in((-Math.log(1 - this.fraction()) / rate) * 1000, () => {
      if (this.time.nowMs >= endMs) return;
      this.#arrive(endMs);
      this.#requests += 1;
      const rank = this.#load.draw(this.fraction());
      const accountId = this.#load.idOf(rank);
      const perSecond = (rate * this.#load.shareOf(rank)) / (isSticky ? 1 : replicas);
      const at = isSticky ? accountId % replicas : Math.floor(this.fraction() * replicas);
      void this.#replicas[at]?.serve(accountId, perSecond);
    });
  }

  #check(): void {
    this.store.check();
    assert(this.store.reserved === 0n, "nothing is reserved in the end");
    assert(this.started === this.charged + this.refused, "each request ends once");
    assert(
      this.store.charged === BigInt(this.charged) * this.options.charge,
      "each is charged once",
    );
    for (const { holds } of this.#replicas) assert(holds.total() === 0n, "nothing is held");
  }
}

class Replica {
  readonly holds: Holds;
  readonly #fleet: Fleet;
  readonly #id: number;
  readonly #writer: WriteQueue;
  readonly #meters: OpenMeters;
  /** When a key was used last, as this replica knows it. */
  readonly #usedAtMs = new Map<number, number>();
  readonly #pace = new Pace(SERVER_PACE);

  constructor(fleet: Fleet, id: number) {
    this.#fleet = fleet;
    this.#id = id;
    const { clock } = fleet.time;
    const transport = {
      start: (onReady: () => void) => onReady(),
      ...PATIENCE,
      delayMs: (waiting: number) => this.#pace.delayMs(fleet.time.nowMs, waiting),
      run: (batch: OutgoingBatch) => this.#send(batch),
      close: () => Promise.resolve(),
    };
    const onFatal = (message: string): void => {
      throw new Error(message);
    };
    this.#writer = new WriteQueue(transport, { onFatal, onCommit() {}, clock });
    this.#writer.start();
    const random = { fraction: fleet.fraction };
    this.holds = new Holds({ writer: this.#writer, clock, random, isAlone: false, refuse() {} });
    this.#meters = new OpenMeters(clock);
  }

  /** A request of an account that has `perSecond` requests at this replica. */
  async serve(accountId: number, perSecond: number): Promise<void> {
    const fleet = this.#fleet;
    const { hold: amount, requestMs } = fleet.options;
    fleet.open += 1;
    fleet.started += 1;
    this.#touch(accountId, perSecond);
    const publicId = `req_${fleet.started}`;
    const owner = { accountId, keyId: accountId, requestId: publicId };
    const wait = { waitMs: HOLD_WAIT_MS, signal: { aborted: false } };
    const arrivedMs = fleet.time.nowMs;
    const decided = this.holds.takeOrWait(wait, owner, { least: amount, most: amount, step: 1n });
    let result: HoldResult;
    if (decided instanceof Promise) {
      result = await decided;
      fleet.waits.push(fleet.time.nowMs - arrivedMs);
    } else result = decided;
    if (!result.ok) {
      fleet.refused += 1;
      fleet.open -= 1;
      return;
    }
    const { hold } = result;
    const admitted = { publicId, accountId, keyId: accountId, firstKeyId: accountId, hold: amount };
    const finish = this.#begin(admitted, arrivedMs);
    fleet.atProviders += 1;
    const tookMs = -Math.log(1 - fleet.fraction()) * requestMs;
    fleet.time.in(tookMs, () => {
      fleet.atProviders -= 1;
      void this.#settle(finish(), hold);
    });
  }

  /** The request is open from now on. The result ends that, and is the record of its end. */
  #begin(admitted: Partial<RequestRecord>, startedMs: number): () => RequestRecord {
    let mayHaveRow = false;
    let isSettling = false;
    const meter = {
      requestId: admitted.publicId ?? "",
      startedMs,
      dueMs: Infinity,
      allowedMoreMs: 0,
      get isSettling() {
        return isSettling;
      },
      abandon: () => Promise.resolve(),
      writeRow: () => {
        if (mayHaveRow || isSettling) return true;
        mayHaveRow = true;
        const record = runningRecord(admitted);
        void this.#writer.write({ kind: "recordRequest", record });
        return true;
      },
    };
    this.#meters.add(meter);
    return () => {
      isSettling = true;
      this.#meters.remove(meter);
      return requestRecord({ ...admitted, mayHaveRow, charge: this.#fleet.options.charge });
    };
  }

  async #settle(record: RequestRecord, hold: Hold): Promise<void> {
    const fleet = this.#fleet;
    const endedMs = fleet.time.nowMs;
    await this.#writer.writeWithin({ kind: "recordRequest", record }, [hold]);
    fleet.settles.push(fleet.time.nowMs - endedMs);
    fleet.charged += 1;
    fleet.open -= 1;
  }

  /** The last use of a key is written once a minute. How long ago the first use before the run was, is drawn. */
  #touch(keyId: number, perSecond: number): void {
    const { nowMs } = this.#fleet.time;
    const usedAtMs = this.#usedAtMs.get(keyId);
    if (usedAtMs !== undefined && nowMs - usedAtMs < LAST_USED_STEP_S * 1000) return;
    this.#usedAtMs.set(keyId, nowMs);
    const isKnown = this.#fleet.fraction() > Math.exp(-perSecond * LAST_USED_STEP_S);
    if (usedAtMs === undefined && isKnown) return;
    void this.#writer.write({
      kind: "touchKey",
      accountId: keyId,
      keyId,
      at: nowMs,
      address: null,
    });
  }

  async #send(batch: OutgoingBatch) {
    this.#pace.started(this.#fleet.time.nowMs, batch.operations.length);
    const isEmpty =
      batch.reserves.length === 0 && batch.operations.every(({ kind }) => kind === "reserve");
    const effects: readonly GroupEffect[] = isEmpty
      ? []
      : await this.#fleet.store.transact(this.#id, batch);
    return { replies: batch.operations.map(() => ({ ok: true, result: {} }) as const), effects };
  }
}

/** Accounts by the share of the load that they have. Their ids are mixed: the hottest is not the first to be locked. */
class Zipf {
  readonly #upTo: Float64Array;

  constructor(accounts: number, exponent: number) {
    this.#upTo = new Float64Array(accounts);
    let sum = 0;
    for (let rank = 0; rank < accounts; rank += 1) {
      sum += (rank + 1) ** -exponent;
      this.#upTo[rank] = sum;
    }
  }

  draw(fraction: number): number {
    const upTo = this.#upTo;
    const wanted = fraction * (upTo.at(-1) ?? 0);
    let [low, high] = [0, upTo.length - 1];
    while (low < high) {
      const middle = (low + high) >> 1;
      if ((upTo[middle] ?? 0) > wanted) high = middle;
      else low = middle + 1;
    }
    return low;
  }

  shareOf(rank: number): number {
    const before = rank === 0 ? 0 : (this.#upTo[rank - 1] ?? 0);
    return ((this.#upTo[rank] ?? 0) - before) / (this.#upTo.at(-1) ?? 1);
  }

  /** A prime that divides no usual number of accounts has each rank at a place of its own. */
  idOf(rank: number): number {
    return 1 + (((rank + 1) * 7_368_787) % this.#upTo.length);
  }
}

/** Numbers from 0 to 1. */
function fractions(seed: number): () => number {
  const random = seededRandom(seed);
  return () => random.below(2 ** 30) / 2 ** 30;
}
