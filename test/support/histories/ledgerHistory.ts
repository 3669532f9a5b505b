import { array, asyncProperty, integer, type IAsyncProperty } from "fast-check";
import { amountRangeOf, boundWithin } from "../../../src/billing/cost.ts";
import { createHolds, type Hold } from "../../../src/billing/holds.ts";
import { actor, ended, opened } from "../store/storeFolder.ts";
import type { SetupKey, LedgerSetup } from "./ledgerSetup.ts";
import { snapshotOfStore, snapshotOfModel } from "./snapshots.ts";
import { MoneyModel, type ModelDecision } from "./moneyModel.ts";

interface OpenRequest {
  readonly id: string;
  readonly hold: Hold;
}

const STEPS_MAX = 60;
const statuses = ["done", "done", "cancelled", "failed"] as const;
/** Amounts are small, so that they often fit exactly; some histories count them in what a double cannot. */
const scales = [1n, 2n ** 51n + 1n] as const;

let histories = 0;

/** A real store with its writer and holds against the model: writes are asked for and not awaited. */
export function ledgerHistory(setup: LedgerSetup): IAsyncProperty<[readonly number[]]> {
  const step = integer({ min: 0, max: 0xffff_ffff });
  const steps = array(step, { minLength: 1, maxLength: STEPS_MAX, size: "max" });
  return asyncProperty(steps, async ([first = 0, ...others]) => {
    const history = new LedgerHistory(setup, first);
    try {
      for (const word of others) await history.step(word);
      await history.finish();
    } catch (cause) {
      throw new Error(`${String(cause)}\n${history.told.join("\n")}`, { cause });
    }
  });
}

/** One history on accounts of its own: each word says what happens next, and to what. */
class LedgerHistory {
  readonly told: string[] = [];
  readonly #setup: LedgerSetup;
  readonly #worlds: LedgerWorlds;
  readonly #accounts: readonly string[];
  readonly #keys: readonly SetupKey[];
  readonly #scale: bigint;
  readonly #name: string;
  #holds = createHolds();
  #open: OpenRequest[] = [];
  #ids: string[] = [];
  #asked: { readonly write: AskedWrite; readonly answer: Promise<string> }[] = [];

  constructor(setup: LedgerSetup, word: number) {
    this.#setup = setup;
    this.#name = String(histories++);
    this.#scale = scales[word % 2] ?? 1n;
    const budget = BigInt((word >>> 1) % 64) * this.#scale;
    this.#accounts = [`shared${this.#name}`, `other${this.#name}`];
    const [shared = "", other = ""] = this.#accounts;
    const model = new MoneyModel();
    this.#keys = [
      setup.key(`plain${this.#name}`, shared, null),
      setup.key(`bounded${this.#name}`, shared, budget),
      setup.key(`alone${this.#name}`, other, budget),
    ];
    for (const { name, account, budget } of this.#keys) model.addKey(name, account, budget);
    this.#worlds = new LedgerWorlds(model);
    this.told.push(`budgets of ${budget}`);
  }

  async step(word: number): Promise<void> {
    const kind = word % 16;
    const rest = word >>> 4;
    if (kind < 4) this.#move(kind, rest);
    else if (kind < 9) this.#take(rest);
    else if (kind < 13) this.#end(rest);
    else if (kind < 15 || rest % 16 > 0) await this.#settle();
    else await this.#restart();
  }

  /** All open requests fail; then the store must equal the model. */
  async finish(): Promise<void> {
    await this.#settle();
    for (const { id } of this.#open) this.#askEnd(id, "failed", 0);
    await this.#settle();
    if (this.#holds.total() !== 0n) throw new Error("something is still held");
  }

  #move(kind: number, word: number): void {
    const account = this.#accounts[word % 2] ?? "";
    const amount = BigInt(((word >>> 1) % 32) + 1) * this.#scale;
    const { admin } = this.#setup.store;
    const booking = { account, amount, ref: null, note: null };
    if (kind < 2) {
      this.#sees(
        `credit ${account} ${amount}`,
        () => admin.changeBalance(actor, { ...booking, kind: "credit" }),
        (model) => {
          model.credit(account, amount);
          return true;
        },
      );
    } else if (kind === 2) {
      this.#sees(
        `debit ${account} ${amount}`,
        () => admin.changeBalance(actor, { ...booking, kind: "debit" }),
        (model) => model.debit(account, amount),
      );
    } else {
      this.#sees(
        `overdraft ${account} ${amount}`,
        () => admin.setOverdraft(actor, account, amount),
        (model) => model.setOverdraft(account, amount),
      );
    }
  }

  #sees(what: string, does: () => unknown, expected: (model: MoneyModel) => boolean): void {
    let seen = "done";
    try {
      does();
    } catch {
      seen = "refused";
    }
    this.told.push(`${what}: ${seen}`);
    this.#worlds.see(what, seen, (model) => (expected(model) ? "done" : "refused"));
  }

  #take(word: number): void {
    const key = this.#keys[word % 3];
    if (!key) return;
    const least = ((word >>> 2) % 8) + 1;
    const most = least + ((word >>> 5) % 16);
    const unit = BigInt((word >>> 9) % 3) * this.#scale;
    const price = { input: 0n, cachedInput: 0n, cacheWrite: 0n, output: unit };
    const range = amountRangeOf(0, { least, most }, 1, price);
    const id = `req_${this.#name}_${this.#ids.length}`;
    const taken = this.#holds.take(
      { ...key, requestId: id },
      range,
      this.#setup.fundsReaderOf(key),
    );
    const seen: ModelDecision = !taken.ok
      ? { kind: taken.reason, required: taken.required, available: taken.available }
      : {
          kind: "held",
          tokens: boundWithin(range, taken.hold.amount, { least, most }),
          hold: taken.hold.amount,
        };
    const what = `take ${key.name} ${id} of ${range.least} to ${range.most}`;
    this.told.push(`${what}: ${textOf(seen)}`);
    this.#worlds.see(what, textOf(seen), (model) =>
      textOf(model.decide(key.name, { prompt: 0n, unit, least, most })),
    );
    if (!taken.ok) return;
    this.#ids.push(id);
    this.#open.push({ id, hold: taken.hold });
    this.#worlds.happens((model) => model.promise(id, key.name, taken.hold.amount));
    const { accountId, keyId } = key;
    const request = opened(
      id,
      { accountId, keyId },
      {
        priceInput: 0n,
        priceCachedInput: 0n,
        priceCacheWrite: 0n,
        priceOutput: this.#scale,
        hold: taken.hold.amount,
        heldTotal: taken.hold.heldTotal,
      },
    );
    this.#ask({ kind: "open", id }, this.#setup.write({ kind: "openRequest", request }));
  }

  /** Asks for the end of any request, also of one that ended before: then it must be refused. */
  #end(word: number): void {
    const isAnother = word % 8 > 0 && this.#open.length > 0;
    const ids = isAnother ? this.#open.map(({ id }) => id) : this.#ids;
    const id = ids[(word >>> 3) % Math.max(1, ids.length)];
    if (id === undefined) return;
    const status = statuses[(word >>> 9) % 4] ?? "done";
    this.#askEnd(id, status, status === "failed" ? 0 : (word >>> 11) % 48);
  }

  #askEnd(id: string, status: "done" | "failed" | "cancelled", tokens: number): void {
    this.#open.find((request) => request.id === id)?.hold.startSettling();
    const cost = BigInt(tokens) * this.#scale;
    const billed = {
      promptTokens: 0,
      cachedTokens: 0,
      cacheWriteTokens: 0,
      completionTokens: tokens,
    };
    const end = ended(id, { status, ...billed, cost, operatorCost: null, attempts: [] });
    this.#ask(
      { kind: "end", id, status, cost },
      this.#setup.write({ kind: "settleRequest", settlement: end }),
    );
  }

  #ask(write: AskedWrite, answer: Promise<string>): void {
    this.told.push(
      `ask to ${JSON.stringify(write, (_, one: unknown) => (typeof one === "bigint" ? String(one) : one))}`,
    );
    this.#worlds.ask(write);
    this.#asked.push({ write, answer });
  }

  /** Waits for the writer; then memory releases settled holds, and the whole store is compared. */
  async #settle(): Promise<void> {
    const answers = await Promise.all(this.#asked.map(({ answer }) => answer));
    this.told.push(`settled: ${answers.join(", ")}`);
    this.#worlds.settle(answers);
    const over = this.#asked.filter(
      ({ write }, at) => (write.kind === "end") === (answers[at] !== "refused"),
    );
    this.#asked = [];
    for (const { write } of over) this.#letGo(write.id);
    const seen = snapshotOfModel(snapshotOfStore(this.#setup.store, this.#keys));
    this.#worlds.see("the store", seen, (model) => snapshotOfModel(model));
  }

  #letGo(id: string): void {
    const request = this.#open.find((one) => one.id === id);
    request?.hold.release();
    this.#open = this.#open.filter((one) => one !== request);
    this.#worlds.happens((model) => model.forget(id));
  }

  async #restart(): Promise<void> {
    await this.#settle();
    await this.#setup.restart();
    this.told.push("restart");
    this.#holds = createHolds();
    this.#open = [];
    this.#worlds.happens((model) => model.interrupt());
  }
}

function textOf(decision: ModelDecision): string {
  return Object.values(decision).map(String).join(" ");
}

/** What the writer was asked for and has not answered yet, in its order. */
export type AskedWrite =
  | { readonly kind: "open"; readonly id: string }
  | {
      readonly kind: "end";
      readonly id: string;
      readonly status: "done" | "failed" | "cancelled";
      readonly cost: bigint;
    };

/** One way in which things may have come about so far. */
interface World {
  readonly model: MoneyModel;
  /** What the writer has answered, or will, to each write that it has committed here. */
  readonly answers: readonly string[];
}

/**
 * All possible states of the store while writes are in flight: only the writer knows when it
 * commits. Each thing that is seen from outside rules some of it out; where nothing is left, a rule is broken.
 */
class LedgerWorlds {
  #worlds: readonly World[];
  readonly #asked: AskedWrite[] = [];

  constructor(model: MoneyModel) {
    this.#worlds = [{ model, answers: [] }];
  }

  /** The writer is asked for something. */
  ask(write: AskedWrite): void {
    this.#asked.push(write);
  }

  /** Something happens that cannot be told from outside. */
  happens(change: (model: MoneyModel) => void): void {
    for (const { model } of this.#worlds) change(model);
  }

  /** Something happens at once, at whatever moment between the commits, and this is seen of it. */
  see(what: string, seen: string, happens: (model: MoneyModel) => string): void {
    const expected = new Set<string>();
    const worlds = this.#worlds.flatMap((world) =>
      this.#futures(world).filter(({ model }) => {
        const here = happens(model);
        expected.add(here);
        return here === seen;
      }),
    );
    this.#remain(worlds, `${what}: ${seen}, but not ${[...expected].join(" or ")}`);
  }

  /** The writer has answered everything. */
  settle(answers: readonly string[]): void {
    const expected = new Set<string>();
    const seen = answers.join(", ");
    const worlds = this.#worlds
      .map((world) => this.#futures(world).at(-1) ?? world)
      .filter((world) => {
        expected.add(world.answers.join(", "));
        return world.answers.join(", ") === seen;
      });
    this.#asked.length = 0;
    const settled = worlds.map(({ model }) => ({ model, answers: [] }));
    this.#remain(settled, `the writer answered ${seen}, but not ${[...expected].join(" or ")}`);
  }

  /** A world for each number of further commits, none first. */
  #futures(world: World): readonly World[] {
    const futures = [world];
    for (const write of this.#asked.slice(world.answers.length)) {
      const { model, answers } = futures.at(-1) ?? world;
      const next = model.copy();
      futures.push({ model: next, answers: [...answers, commit(next, write)] });
    }
    return futures;
  }

  #remain(worlds: readonly World[], problem: string): void {
    if (worlds.length === 0) throw new Error(problem);
    // Worlds that came to be the same are one.
    const distinct =
      worlds.length > 1 ? new Map(worlds.map((world) => [worldText(world), world])) : worlds;
    this.#worlds = [...distinct.values()];
  }
}

/** How the writer answers a write in the model's words. */
function commit(model: MoneyModel, write: AskedWrite): string {
  if (write.kind === "open") return model.open(write.id) ? "opened" : "refused";
  const end = model.end(write.id, write.status, write.cost);
  return end ? `charged ${end.charge} of ${end.charge + end.writeOff}` : "refused";
}

function worldText({ model, answers }: World): string {
  return `${answers.length} ${snapshotOfModel(model)}`;
}
