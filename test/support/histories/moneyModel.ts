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

/** `promised`: held in memory, not inserted yet; `refused`: the insert was refused. */
export type ModelStatus =
  | "promised"
  | "refused"
  | "running"
  | "done"
  | "failed"
  | "cancelled"
  | "interrupted";

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
  /** Those whose hold the gateway has in memory. */
  readonly #promised = new Set<string>();

  copy(): MoneyModel {
    const copy = new MoneyModel();
    for (const [name, row] of this.accounts)
      copy.accounts.set(name, { ...row, ledger: [...row.ledger] });
    for (const [name, row] of this.keys) copy.keys.set(name, { ...row });
    for (const [id, row] of this.requests) copy.requests.set(id, { ...row });
    for (const id of this.#promised) copy.#promised.add(id);
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

  /** The holds of the inserted requests of the account. */
  held(account: string): bigint {
    return this.#sum(
      (request) => request.status === "running" && this.key(request.key).account === account,
    );
  }

  /** The available money by the inserted requests. */
  available(account: string): bigint {
    const { balance, overdraft } = this.account(account);
    return balance + overdraft - this.held(account);
  }

  credit(account: string, amount: bigint): void {
    this.#book(account, "credit", amount);
  }

  /** False where that is more than is available. */
  debit(account: string, amount: bigint): boolean {
    if (amount > this.available(account)) return false;
    this.#book(account, "debit", -amount);
    return true;
  }

  /** False where more is spent or held. */
  setOverdraft(account: string, overdraft: bigint): boolean {
    const { balance } = this.account(account);
    if (balance + overdraft - this.held(account) < 0n) return false;
    this.account(account).overdraft = overdraft;
    return true;
  }

  /** What admission must say now. */
  decide(key: string, { prompt, unit, least, most }: ModelDemand): ModelDecision {
    const { account, budget, spent } = this.key(key);
    const { balance, overdraft } = this.account(account);
    const required = prompt + unit * BigInt(least);
    const ofAccount = this.#sum(
      (request) => isOpen(request) && this.key(request.key).account === account,
    );
    const ofKey = this.#sum((request) => isOpen(request) && request.key === key);
    const free = balance + overdraft - ofAccount;
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

  /** Holds money in memory for a request that is not inserted yet. */
  promise(id: string, key: string, hold: bigint): void {
    this.requests.set(id, { key, hold, status: "promised", charge: 0n, writeOff: 0n });
    this.#promised.add(id);
  }

  /** Inserts the request; false if the account can no longer pay its hold. */
  open(id: string): boolean {
    const request = this.request(id);
    const isPaid = request.hold <= this.available(this.key(request.key).account);
    request.status = isPaid ? "running" : "refused";
    return isPaid;
  }

  /** Ends a running request that costs so much; undefined where it is not running. */
  end(
    id: string,
    status: "done" | "failed" | "cancelled",
    cost: bigint,
  ): { charge: bigint; writeOff: bigint } | undefined {
    const request = this.requests.get(id);
    if (request?.status !== "running") return undefined;
    const key = this.key(request.key);
    const { balance, overdraft } = this.account(key.account);
    request.status = status;
    // What no other open request was promised.
    const free = balance + overdraft - this.held(key.account);
    const most = cost <= request.hold || free < request.hold ? request.hold : free;
    request.charge = smallest(cost, most, balance + overdraft);
    request.writeOff = cost - request.charge;
    key.spent += request.charge;
    if (status === "done" || request.charge > 0n)
      this.#book(key.account, "charge", -request.charge);
    return { charge: request.charge, writeOff: request.writeOff };
  }

  /** A request ends with this charge, as the gateway has decided it. */
  record(
    id: string,
    status: "done" | "failed" | "cancelled",
    { charge, writeOff }: { readonly charge: bigint; readonly writeOff: bigint },
  ): void {
    const request = this.request(id);
    Object.assign(request, { status, charge, writeOff });
    this.#promised.delete(id);
    const key = this.key(request.key);
    key.spent += charge;
    if (status === "done" || charge > 0n) this.#book(key.account, "charge", -charge);
  }

  /** The request leaves no record. */
  drop(id: string): void {
    this.#promised.delete(id);
    this.requests.delete(id);
  }

  /** The gateway holds nothing for the request any more. */
  forget(id: string): void {
    this.#promised.delete(id);
    if (this.request(id).status === "refused") this.requests.delete(id);
  }

  /** What a start does with whatever an earlier life left open. */
  interrupt(): void {
    for (const request of this.requests.values()) {
      if (request.status === "running") request.status = "interrupted";
    }
    this.#promised.clear();
  }

  #sum(counts: (request: ModelRequest) => boolean): bigint {
    let sum = 0n;
    for (const id of this.#promised) {
      const request = this.request(id);
      if (counts(request)) sum += request.hold;
    }
    return sum;
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

/** The holds in memory: a refused request counts until memory releases it. */
function isOpen({ status }: ModelRequest): boolean {
  return status === "promised" || status === "running" || status === "refused";
}

function smallest(...amounts: readonly bigint[]): bigint {
  return amounts.reduce((least, one) => (one < least ? one : least));
}

function found<T>(value: T | undefined): T {
  if (value === undefined) throw new Error("the model was asked for what it does not know");
  return value;
}
