/**
 * The expected ledger in the simplest form: lists that are summed at every question. It knows
 * the contract's rules and shares no code with the gateway. All amounts are nano-roubles.
 */
export interface ModelAccount {
  balance: bigint;
  overdraft: bigint;
  /** What was booked, oldest first; a charge of 0 too. */
  readonly ledger: { readonly kind: "credit" | "debit" | "charge"; readonly amount: bigint }[];
}

export interface ModelKey {
  readonly account: string;
  budget: bigint | null;
  spent: bigint;
}

export type ModelStatus = "running" | "done" | "failed" | "cancelled" | "interrupted";

export interface ModelRequest {
  readonly key: string;
  readonly hold: bigint;
  status: ModelStatus;
  charge: bigint;
  writeOff: bigint;
}

/** What a request asks to be held: a prompt, and from `least` to `most` tokens at `unit` each for all choices. */
export interface ModelDemand {
  readonly prompt: bigint;
  readonly unit: bigint;
  readonly least: number;
  readonly most: number;
}

export type ModelDecision =
  | { readonly kind: "held"; readonly tokens: number; readonly hold: bigint }
  | ModelRefusal;

export interface ModelRefusal {
  readonly kind: "insufficient" | "busy";
  readonly required: bigint;
  readonly available: bigint;
}

export class MoneyModel {
  readonly accounts = new Map<string, ModelAccount>();
  readonly keys = new Map<string, ModelKey>();
  readonly requests = new Map<string, ModelRequest>();
  readonly #running = new Set<string>();
  /** What requests hold beyond their first hold. */
  readonly #more = new Map<string, bigint>();

  copy(): MoneyModel {
    const copy = new MoneyModel();
    for (const [name, row] of this.accounts)
      copy.accounts.set(name, { ...row, ledger: [...row.ledger] });
    for (const [name, row] of this.keys) copy.keys.set(name, { ...row });
    for (const [id, row] of this.requests) copy.requests.set(id, { ...row });
    for (const id of this.#running) copy.#running.add(id);
    for (const [id, more] of this.#more) copy.#more.set(id, more);
    return copy;
  }

  addKey(name: string, account: string, budget: bigint | null): void {
    if (!this.accounts.has(account))
      this.accounts.set(account, { balance: 0n, overdraft: 0n, ledger: [] });
    this.keys.set(name, { account, budget, spent: 0n });
  }

  account(name: string): ModelAccount {
    return found(this.accounts.get(name));
  }

  key(name: string): ModelKey {
    return found(this.keys.get(name));
  }

  request(id: string): ModelRequest {
    return found(this.requests.get(id));
  }

  /** What the open requests of the account hold. */
  held(account: string): bigint {
    return this.#sum((request) => this.key(request.key).account === account);
  }

  /** What no open request holds. */
  available(account: string): bigint {
    const { balance, overdraft } = this.account(account);
    return balance + overdraft - this.held(account);
  }

  credit(account: string, amount: bigint): void {
    this.#book(account, "credit", amount);
  }

  /** False where the account has less besides `held`, which is what its open requests hold unless given. */
  debit(account: string, amount: bigint, held = this.held(account)): boolean {
    const { balance, overdraft } = this.account(account);
    if (balance + overdraft - held < amount) return false;
    this.#book(account, "debit", -amount);
    return true;
  }

  /** False where more is spent or held. `held` as above. */
  setOverdraft(account: string, overdraft: bigint, held = this.held(account)): boolean {
    const { balance } = this.account(account);
    if (balance + overdraft - held < 0n) return false;
    this.account(account).overdraft = overdraft;
    return true;
  }

  /** The most that a request of the key could have if all other open requests of the account turned out to be free. */
  mostOf(key: string): bigint {
    const { account, budget, spent } = this.key(key);
    const { balance, overdraft } = this.account(account);
    const ofKey = this.#sum((request) => request.key === key);
    const spendable = balance + overdraft;
    return budget === null ? spendable : smallest(spendable, budget - spent - ofKey);
  }

  /** What admission must say now. */
  decide(key: string, { prompt, unit, least, most }: ModelDemand): ModelDecision {
    const { account, budget, spent } = this.key(key);
    const { balance, overdraft } = this.account(account);
    const required = prompt + unit * BigInt(least);
    const ofKey = this.#sum((request) => request.key === key);
    const free = balance + overdraft - this.held(account);
    const unspent = budget === null ? free : budget - spent - ofKey;
    const left = budget !== null && unspent < 0n ? 0n : unspent;
    const payable = left < free ? left : free;
    const available = payable < 0n ? 0n : payable;
    if (required > balance + overdraft || (budget !== null && required > left)) {
      return { kind: "insufficient", required, available };
    }
    if (required > free) return { kind: "busy", required, available };
    const paid = unit === 0n ? BigInt(most) : (payable - prompt) / unit;
    const tokens = paid < BigInt(most) ? Number(paid) : most;
    return { kind: "held", tokens, hold: prompt + unit * BigInt(tokens) };
  }

  /** Holds money for a request. */
  hold(id: string, key: string, hold: bigint): void {
    this.requests.set(id, { key, hold, status: "running", charge: 0n, writeOff: 0n });
    this.#running.add(id);
  }

  /** Holds more for the request, as far as the account has free money. Returns how much more. */
  extend(id: string, extra: bigint): bigint {
    const free = this.available(this.key(this.request(id).key).account);
    const more = free > 0n ? smallest(extra, free) : 0n;
    this.#more.set(id, more);
    return more;
  }

  /** Releases what the request holds beyond its first hold. */
  shorten(id: string): void {
    this.#more.delete(id);
  }

  /** Ends a request that costs so much; undefined where it is not running. */
  end(
    id: string,
    status: "done" | "failed" | "cancelled",
    cost: bigint,
  ): { charge: bigint; writeOff: bigint } | undefined {
    const request = this.requests.get(id);
    if (request?.status !== "running") return undefined;
    if (cost > request.hold) this.extend(id, cost - request.hold);
    const charge = smallest(cost, this.#heldBy(id));
    this.charge(id, status, charge);
    request.writeOff = cost - charge;
    return { charge, writeOff: request.writeOff };
  }

  /** Ends a running request with this charge, and releases what it holds. */
  charge(id: string, status: "done" | "failed" | "cancelled", charge: bigint): void {
    const request = this.request(id);
    const key = this.key(request.key);
    this.#running.delete(id);
    request.status = status;
    request.charge = charge;
    key.spent += charge;
    if (status === "done" || charge > 0n) this.#book(key.account, "charge", -charge);
  }

  /** A request ends with this charge, as the gateway has decided it. */
  record(
    id: string,
    status: "done" | "failed" | "cancelled",
    { charge, writeOff }: { readonly charge: bigint; readonly writeOff: bigint },
  ): void {
    this.charge(id, status, charge);
    this.request(id).writeOff = writeOff;
  }

  /** Releases what a request holds that is not recorded. */
  forget(id: string): void {
    this.#running.delete(id);
    this.requests.delete(id);
  }

  /** What is done with the requests that an ended process left open: `ids`, or all. */
  interrupt(ids: Iterable<string> = this.#running): void {
    for (const id of ids) {
      this.request(id).status = "interrupted";
      this.#running.delete(id);
    }
  }

  #sum(counts: (request: ModelRequest) => boolean): bigint {
    let sum = 0n;
    for (const id of this.#running) {
      const request = this.request(id);
      if (counts(request)) sum += this.#heldBy(id);
    }
    return sum;
  }

  #heldBy(id: string): bigint {
    return this.request(id).hold + (this.#more.get(id) ?? 0n);
  }

  #book(account: string, kind: "credit" | "debit" | "charge", amount: bigint): void {
    const row = this.account(account);
    row.balance += amount;
    row.ledger.push({ kind, amount });
  }
}

/** Throws where the gateway has another value than the model. */
export function same(seen: unknown, expected: unknown, what: string): void {
  if (seen !== expected)
    throw new Error(`${what}: ${String(seen)}, where the model has ${String(expected)}`);
}

function smallest(...amounts: readonly bigint[]): bigint {
  return amounts.reduce((least, one) => (one < least ? one : least));
}

function found<T>(value: T | undefined): T {
  if (value === undefined) throw new Error("the model was asked for what it does not know");
  return value;
}
