/**
 * What the books must say, kept the plain way: lists that are added up anew at every question. It knows
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
  readonly budget: bigint | null;
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
  | { readonly kind: "short"; readonly required: bigint; readonly available: bigint }
  | { readonly kind: "busy" };

export class MoneyModel {
  readonly accounts = new Map<string, ModelAccount>();
  readonly keys = new Map<string, ModelKey>();
  readonly requests = new Map<string, ModelRequest>();
  readonly running = new Set<ModelRequest>();

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

  /** The sum of the holds of the account's running requests, or of one key's. */
  held(account: string, key?: string): bigint {
    let sum = 0n;
    for (const request of this.running) {
      const isCounted = key === undefined || request.key === key;
      if (isCounted && this.key(request.key).account === account) sum += request.hold;
    }
    return sum;
  }

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
    const free = this.available(account);
    const left = budget === null ? free : budget - spent - this.held(account, key);
    const payable = left < free ? left : free;
    if (required > balance + overdraft || (budget !== null && required > left)) {
      return { kind: "short", required, available: payable < 0n ? 0n : payable };
    }
    if (required > free) return { kind: "busy" };
    const paid = unit === 0n ? BigInt(most) : (payable - prompt) / unit;
    const tokens = paid < BigInt(most) ? Number(paid) : most;
    return { kind: "held", tokens, hold: prompt + unit * BigInt(tokens) };
  }

  open(id: string, key: string, hold: bigint): void {
    const request = { key, hold, status: "running", charge: 0n, writeOff: 0n } as const;
    this.requests.set(id, { ...request });
    this.running.add(this.request(id));
  }

  /** Ends a running request that costs so much. */
  end(id: string, status: "done" | "failed" | "cancelled", cost: bigint): ModelRequest {
    const request = this.request(id);
    const key = this.key(request.key);
    const { balance, overdraft } = this.account(key.account);
    request.status = status;
    this.running.delete(request);
    // What no open request was promised, the ended one's own hold counted as free again.
    const free = balance + overdraft - this.held(key.account);
    const most = cost <= request.hold || free < request.hold ? request.hold : free;
    request.charge = smallest(cost, most, balance + overdraft);
    request.writeOff = cost - request.charge;
    key.spent += request.charge;
    if (status === "done" || request.charge > 0n)
      this.#book(key.account, "charge", -request.charge);
    return request;
  }

  /** What a start does with whatever an earlier life left open. */
  interrupt(): void {
    for (const request of this.running) request.status = "interrupted";
    this.running.clear();
  }

  #book(account: string, kind: "credit" | "debit" | "charge", amount: bigint): void {
    const row = this.account(account);
    row.balance += amount;
    row.ledger.push({ kind, amount });
  }
}

function smallest(...amounts: readonly bigint[]): bigint {
  return amounts.reduce((least, one) => (one < least ? one : least));
}

function found<T>(value: T | undefined): T {
  if (value === undefined) throw new Error("the model was asked for what it does not know");
  return value;
}
