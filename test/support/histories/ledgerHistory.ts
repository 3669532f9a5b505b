import { withHighest, type PriceList } from "../../../src/contract/priceList.ts";
import { freePrice } from "../store/recordedRequest.ts";
import { array, asyncProperty, integer, type IAsyncProperty } from "fast-check";
import { amountRangeOf, boundWithin, noExtras } from "../../../src/billing/cost.ts";
import type { Hold } from "../../../src/billing/hold.ts";
import { RequestMeter, type Receipt } from "../../../src/billing/meter.ts";
import { OpenMeters } from "../../../src/billing/openMeters.ts";
import { noUsage } from "../../../src/contract/usage.ts";
import type { Clock } from "../../../src/lib/clock.ts";
import { actor } from "../store/storeFolder.ts";
import type { LedgerReplica, LedgerSetup, SetupKey } from "./ledgerSetup.ts";
import { MoneyModel, same, type ModelDecision } from "./moneyModel.ts";
import { snapshotOfModel, snapshotOfStore } from "./snapshots.ts";

/** The prompts of the dearer tier, and how much dearer it is. */
const LONG_PROMPT = 24;
const LONG_FACTOR = 3n;
const LONG_NOTE = JSON.stringify({ from_prompt_tokens: LONG_PROMPT });

interface OpenRequest {
  readonly id: string;
  readonly key: SetupKey;
  readonly replica: LedgerReplica;
  readonly hold: Hold;
  readonly meter: RequestMeter;
  hasRow: boolean;
}

/** A request whose end may be committed or not. */
interface SettlingRequest extends OpenRequest {
  readonly status: "done" | "failed" | "cancelled";
  readonly cost: bigint;
  /** The charge, if nothing else happens meanwhile. */
  readonly expected: bigint | undefined;
  readonly receipt: Promise<Receipt>;
}

const STEPS_MAX = 60;
const FOR_EVER_MS = 1_000_000;
const statuses = ["done", "done", "cancelled", "failed"] as const;
/** Amounts are small, so that they often fit exactly; some histories count them in what a double cannot. */
const scales = [1n, 2n ** 51n + 1n] as const;

/** No request is open for so long that it gets its row by itself. */
const stillClock: Clock = { epochMs: () => actor.at, monotonicMs: () => 0 };

let histories = 0;

/** A real store with its writer, holds and meters against the model. Writes are asked for and not awaited. */
export function ledgerHistory(setup: LedgerSetup): IAsyncProperty<[readonly number[]]> {
  const step = integer({ min: 0, max: 0xffff_ffff });
  const steps = array(step, { minLength: 1, maxLength: STEPS_MAX, size: "max" });
  return asyncProperty(steps, async ([first = 0, ...others]) => {
    const history = await LedgerHistory.begin(setup, first);
    try {
      for (const word of others) await history.step(word);
      await history.finish();
    } catch (cause) {
      throw new Error(`${String(cause)}\n${history.told.join("\n")}`, { cause });
    }
  });
}

/**
 * One history on accounts of its own: each word says what happens next, and to what. While no end of an account is in
 * flight, and no other replica has reserved more than it holds, each decision must be the model's. Otherwise it depends on
 * what is committed and on what others give back, and must only be payable.
 */
class LedgerHistory {
  readonly told: string[] = [];
  readonly #setup: LedgerSetup;
  readonly #model = new MoneyModel();
  readonly #accounts: readonly string[];
  readonly #keys: readonly SetupKey[];
  readonly #scale: bigint;
  readonly #name: string;
  #meters = new OpenMeters(stillClock);
  #open: OpenRequest[] = [];
  #settling: SettlingRequest[] = [];
  #count = 0;

  static async begin(setup: LedgerSetup, word: number): Promise<LedgerHistory> {
    const name = String(histories++);
    const scale = scales[word % 2] ?? 1n;
    const budget = BigInt((word >>> 1) % 64) * scale;
    const [shared, other] = [`shared${name}`, `other${name}`];
    const keys = [
      await setup.key(`plain${name}`, shared, null),
      await setup.key(`bounded${name}`, shared, budget),
      await setup.key(`alone${name}`, other, budget),
    ];
    return new LedgerHistory(setup, { name, scale, keys });
  }

  private constructor(
    setup: LedgerSetup,
    { name, scale, keys }: { name: string; scale: bigint; keys: readonly SetupKey[] },
  ) {
    this.#setup = setup;
    this.#name = name;
    this.#scale = scale;
    this.#accounts = [`shared${name}`, `other${name}`];
    this.#keys = keys;
    for (const { name, account, budget } of this.#keys) this.#model.addKey(name, account, budget);
    this.told.push(`budgets of ${keys.map((key) => key.budget).join(", ")}`);
  }

  async step(word: number): Promise<void> {
    const kind = word % 16;
    const rest = word >>> 4;
    if (kind < 4) return await this.#move(kind, rest);
    // What a command changed counts in the next turn of the event loop.
    await new Promise(setImmediate);
    if (kind < 9) await this.#take(rest, kind < 6);
    else if (kind < 11) this.#end(rest);
    else if (kind < 13) await this.#endAndWait(rest);
    else if (kind < 14) this.#writeRow(rest);
    else if (kind < 15 || rest % 16 > 1) await this.#settle();
    else if (rest % 16 > 0 && this.#setup.replicas.length > 1) await this.#kill(rest >>> 4);
    else await this.#restart();
  }

  /** All open requests fail; then nothing is held. */
  async finish(): Promise<void> {
    await this.#settle();
    for (const request of this.#open) this.#askEnd(request, "failed", 0n);
    await this.#settle();
    for (const { holds } of this.#setup.replicas)
      same(holds.total(), 0n, "what is held when all is over");
  }

  /** A command of another process. */
  async #move(kind: number, word: number): Promise<void> {
    const account = this.#accounts[word % 2] ?? "";
    const amount = BigInt(((word >>> 1) % 32) + 1) * this.#scale;
    const { admin } = this.#setup.store;
    const change = { account, amount, ref: null, note: null };
    if (kind < 2) {
      await admin.changeBalance(actor, { ...change, kind: "credit" });
      this.#model.credit(account, amount);
      this.told.push(`credit ${account} ${amount}`);
    } else if (kind === 2) {
      const debit = () => admin.changeBalance(actor, { ...change, kind: "debit" });
      if (await this.#takes(account, `debit ${account} ${amount}`, debit, (free) => free - amount))
        same(this.#model.debit(account, amount, 0n), true, "a debit that the account can pay");
    } else {
      const { overdraft } = this.#model.account(account);
      const set = () => admin.setAccount(actor, account, { overdraft: amount });
      const left = (free: bigint) => free - overdraft + amount;
      if (await this.#takes(account, `overdraft ${account} ${amount}`, set, left))
        same(
          this.#model.setOverdraft(account, amount, 0n),
          true,
          "an overdraft that covers the balance",
        );
    }
  }

  /**
   * A command that may take money from an account. It must not take what is held for sure. It must not be refused if the
   * database has the money for it. `left`: what is left of so much free money. Returns whether the account has changed.
   */
  async #takes(
    account: string,
    what: string,
    change: () => unknown,
    left: (free: bigint) => bigint,
  ): Promise<boolean> {
    const free = this.#freeAtMost(account);
    const before = await this.#availableNow(account);
    let isDone = true;
    try {
      await change();
    } catch {
      isDone = false;
    }
    this.told.push(`${what}: ${isDone ? "done" : "refused"}`);
    const after = await this.#availableNow(account);
    if (isDone) same(left(free) >= 0n, true, `${what} leaves held money alone`);
    else same(left(before) < 0n || left(after) < 0n, true, `${what} is refused for a reason`);
    return isDone;
  }

  async #availableNow(account: string): Promise<bigint> {
    const row = await this.#setup.store.accounts.find(account);
    if (!row) throw new Error("an account is gone");
    return row.balance + row.overdraft - row.reserved;
  }

  /** The most that can be free, whatever is committed: the reserve covers each hold until its charge is taken. */
  #freeAtMost(account: string): bigint {
    const { balance, overdraft } = this.#model.account(account);
    const isOf = ({ key }: OpenRequest) => key.account === account;
    const held = this.#open.filter(isOf).map(({ hold }) => hold.amount);
    const charged = this.#settling
      .filter(isOf)
      .map(({ hold, cost }) => (cost < hold.amount ? cost : hold.amount));
    return [...held, ...charged].reduce((free, amount) => free - amount, balance + overdraft);
  }

  /** Each replica gives back what it does not hold, as it does when another one needs money. */
  async #giveBack(): Promise<void> {
    const { replicas } = this.#setup;
    if (replicas.length === 1) return;
    for (const { holds } of replicas)
      for (const { accountId } of this.#keys) holds.wanted(accountId);
    await this.#written();
  }

  /** What was asked of the writers is committed. */
  async #written(): Promise<void> {
    const { replicas } = this.#setup;
    await Promise.all(replicas.map(({ writer }) => writer.write({ kind: "probe" })));
  }

  async #take(word: number, isAfterReturn: boolean): Promise<void> {
    const { replicas } = this.#setup;
    if (isAfterReturn) await this.#giveBack();
    const key = this.#keys[word % 3];
    const replica = replicas[(word >>> 11) % replicas.length];
    if (!key || !replica) return;
    const least = ((word >>> 2) % 8) + 1;
    const most = least + ((word >>> 5) % 16);
    const unit = BigInt((word >>> 9) % 3) * this.#scale;
    const range = amountRangeOf({ promptTokens: 0, ...noExtras }, { least, most }, 1, {
      ...freePrice,
      output: unit,
    });
    const id = `req_${this.#name}_${this.#count++}`;
    const expected = this.#model.decide(key.name, { prompt: 0n, unit, least, most });
    const free = this.#freeAtMost(key.account);
    const isExact = (isAfterReturn || replicas.length === 1) && this.#isQuiet(key.account);
    const holdWait = { waitMs: 0, signal: { aborted: false } };
    const taken = await replica.holds.takeOrWait(holdWait, { ...key, requestId: id }, range);
    const seen: ModelDecision = !taken.ok
      ? { kind: taken.reason, required: taken.required, available: taken.available }
      : {
          kind: "held",
          tokens: boundWithin(range, taken.hold.amount, { least, most }),
          hold: taken.hold.amount,
        };
    const what = `take ${key.name} ${id} of ${range.least} to ${range.most}`;
    this.told.push(`${what}: ${textOf(seen)}`);
    if (isExact) same(textOf(seen), textOf(expected), what);
    if (!taken.ok) return;
    same(taken.hold.amount <= free, true, `${what} fits into free money`);
    this.#model.hold(id, key.name, taken.hold.amount);
    this.#open.push({ id, key, replica, ...this.#meterOf(id, key, replica, taken.hold) });
  }

  /** No end of the account is in flight. */
  #isQuiet(account: string): boolean {
    return this.#settling.every(({ key }) => key.account !== account);
  }

  #meterOf(id: string, { accountId, keyId }: SetupKey, { writer }: LedgerReplica, hold: Hold) {
    const price = { ...freePrice, output: this.#scale };
    const longPrice = { ...freePrice, output: LONG_FACTOR * this.#scale };
    const longTier = { fromPromptTokens: LONG_PROMPT, price: longPrice, note: LONG_NOTE };
    const prices: PriceList = {
      standard: withHighest([{ fromPromptTokens: 0, price, note: null }, longTier]),
      services: {},
    };
    const owner = { accountId, keyId, firstKeyId: keyId };
    const what = { endpoint: "chat", model: "small", stream: false } as const;
    const meter = new RequestMeter({
      writer,
      clock: stillClock,
      hold,
      prices,
      request: {
        publicId: id,
        at: actor.at,
        ...owner,
        ...what,
        price,
        hold: hold.amount,
      },
      withinMs: FOR_EVER_MS,
      open: this.#meters,
      onSettled: () => undefined,
    });
    return { hold, meter, hasRow: false };
  }

  #end(word: number, isAlone = false): void {
    const request = this.#open[(word >>> 3) % Math.max(1, this.#open.length)];
    if (!request) return;
    const status = statuses[(word >>> 9) % 4] ?? "done";
    const tokens = status === "failed" ? 0 : (word >>> 11) % 48;
    const cost = BigInt(tokens) * this.#scale;
    this.#askEnd(request, status, cost, isAlone ? this.#chargeOf(request, cost) : undefined);
  }

  /** Nothing else happens until the end is committed, so its charge is known. */
  async #endAndWait(word: number): Promise<void> {
    await this.#collect();
    await this.#giveBack();
    await new Promise(setImmediate);
    this.#end(word, true);
    await this.#collect();
  }

  #askEnd(
    request: OpenRequest,
    status: SettlingRequest["status"],
    cost: bigint,
    expected?: bigint,
  ): void {
    const { id, hold, meter } = request;
    this.#open = this.#open.filter((one) => one !== request);
    // A cost that the tier of long prompts can have is charged in it.
    const isLong = cost > 0n && cost % (LONG_FACTOR * this.#scale) === 0n;
    const promptTokens = isLong ? LONG_PROMPT : LONG_PROMPT - 1;
    const ofOne = isLong ? LONG_FACTOR * this.#scale : this.#scale;
    const completionTokens = Number(cost / ofOne);
    const usage = { tokens: { ...noUsage, promptTokens, completionTokens }, estimated: false };
    const receipt = meter.settle(status === "failed" ? { status } : { status, usage });
    this.#settling.push(Object.assign({ ...request }, { status, cost, expected, receipt }));
    this.told.push(`end ${id} as ${status} with ${cost}, held ${hold.amount}`);
  }

  /** Above the hold only free money is charged. */
  #chargeOf({ key, hold }: OpenRequest, cost: bigint): bigint {
    if (cost <= hold.amount) return cost;
    const { balance, overdraft } = this.#model.account(key.account);
    const held = this.#open
      .filter((one) => one.key.account === key.account)
      .reduce((sum, one) => sum + one.hold.amount, 0n);
    const free = balance + overdraft - held;
    const most = hold.amount + (free > 0n ? free : 0n);
    return cost < most ? cost : most;
  }

  #writeRow(word: number): void {
    const request = this.#open[word % Math.max(1, this.#open.length)];
    if (!request) return;
    request.meter.writeRow();
    request.hasRow = true;
    this.told.push(`row of ${request.id}`);
  }

  /** Waits for the ends, and tells them the model. */
  async #collect(): Promise<void> {
    const settling = this.#settling;
    const receipts = await Promise.all(settling.map(({ receipt }) => receipt));
    this.#settling = [];
    for (const [index, { id, hold, status, cost, expected }] of settling.entries()) {
      const receipt = receipts[index] as Receipt;
      this.told.push(`${id} charged ${receipt.charge}`);
      const least = cost < hold.amount ? cost : hold.amount;
      const { charge, writeOff } = receipt;
      same(charge + writeOff, cost, `charge and write-off of ${id}`);
      same(least <= charge && charge <= cost, true, `the charge of ${id} is within hold and cost`);
      if (expected !== undefined) same(charge, expected, `the charge of ${id}`);
      this.#model.record(id, status, receipt);
    }
  }

  /** Waits for the writer, and compares the whole store. */
  async #settle(): Promise<void> {
    await this.#collect();
    await this.#written();
    const seen = await snapshotOfStore(this.#setup.store, this.#keys);
    same(textOfStore(seen), textOfStore(this.#recorded()), "the store");
    for (const account of this.#accounts) {
      const own = this.#open.filter(({ key }) => key.account === account);
      const held = own.reduce((sum, { hold }) => sum + hold.amount, 0n);
      const reserved = (await this.#setup.store.accounts.find(account))?.reserved ?? 0n;
      same(held <= reserved, true, `the reserve of ${account} covers its holds`);
    }
  }

  /** What the store must have of the model. */
  #recorded(): MoneyModel {
    const recorded = this.#model.copy();
    for (const { id, hasRow } of this.#open) {
      if (hasRow) recorded.request(id).status = "running";
      else recorded.forget(id);
    }
    return recorded;
  }

  async #restart(): Promise<void> {
    await this.#settle();
    await this.#setup.restart();
    this.told.push("restart");
    this.#meters = new OpenMeters(stillClock);
    this.#interrupt(() => true);
  }

  async #kill(word: number): Promise<void> {
    await this.#settle();
    const at = word % this.#setup.replicas.length;
    const killed = this.#setup.replicas[at];
    this.#setup.kill(at);
    this.told.push(`kill ${at}`);
    this.#interrupt(({ replica }) => replica === killed);
  }

  #interrupt(isEnded: (request: OpenRequest) => boolean): void {
    const ended = this.#open.filter(isEnded);
    this.#open = this.#open.filter((request) => !ended.includes(request));
    for (const { id } of ended.filter(({ hasRow }) => !hasRow)) this.#model.forget(id);
    this.#model.interrupt(ended.filter(({ hasRow }) => hasRow).map(({ id }) => id));
  }
}

function textOf(decision: ModelDecision): string {
  return Object.values(decision).map(String).join(" ");
}

/** Ends that were in flight together are charged in any order. */
function textOfStore(model: MoneyModel): string {
  for (const { ledger } of model.accounts.values())
    ledger.sort((one, other) => (textOfEntry(one) < textOfEntry(other) ? -1 : 1));
  return snapshotOfModel(model);
}

function textOfEntry({ kind, amount }: { readonly kind: string; readonly amount: bigint }): string {
  return `${kind} ${amount}`;
}
