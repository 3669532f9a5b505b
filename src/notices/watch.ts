import { setImmediate } from "node:timers/promises";
import type { NotifyConfig } from "../config/schema.ts";
import type { Clock } from "../lib/clock.ts";
import { AUDIT_FAILED, type LowAccount, type NoticeChange, type Store } from "../store/store.ts";
import {
  blockedStoreNotice,
  expiringKeyNotice,
  failedAuditNotice,
  lowAccountNotice,
  lowAccountsNotice,
  refusedProviderNotice,
  type BlockedBy,
} from "./messages.ts";
import type { NoticeCause } from "../telemetry/metrics.ts";
import type { Notice } from "./notice.ts";
import { accountRecipient, operatorRecipients, type Recipient } from "./recipients.ts";

/** What the gateway knows without asking its database. */
export interface LiveConditions {
  /** Why the database takes no charge now; undefined if it does. */
  readonly blockedBy: BlockedBy | undefined;
  /** The ids of the providers that refuse the key or the account. */
  readonly refusedProviders: ReadonlySet<string>;
}

export interface NoticeWatchOptions {
  readonly clock: Clock;
  readonly store: Pick<Store, "notices" | "noticeCauses">;
  /** Resolves with true for a claim that this gateway has got. Rejects if the database cannot be written. */
  readonly changeNotice: (change: NoticeChange) => Promise<boolean>;
  /** The config in force. */
  readonly notify: () => NotifyConfig;
  readonly live: () => LiveConditions;
  /** Sends in the background. `settled` is called once: with true if a recipient took the notice. */
  readonly send: (
    notice: Notice,
    recipients: readonly Recipient[],
    settled: (isDelivered: boolean) => void,
  ) => void;
}

/** How often the live conditions are looked at, and those of the database. */
const LIVE_EVERY_MS = 5000;
const STORED_EVERY_MS = 60_000;
/** Accounts of one read. A read blocks the thread for some milliseconds at most. */
const PAGE_ACCOUNTS = 200;
const KEYS_MAX = 1000;
/** The operator gets one notice for more low accounts than this at once. */
const SINGLE_ACCOUNTS_MAX = 10;
/** A live condition is told again after this time. So is a cause whose notice did not arrive. */
const REPEAT_MS = 3_600_000;
/** When a claim of a live condition is tried again that another gateway has got. */
const RETRY_CLAIM_MS = 60_000;

type StoredType = "account_low" | "key_expires" | "audit_failed";
const STORED_TYPES = ["account_low", "key_expires", AUDIT_FAILED] as const satisfies StoredType[];

/** A condition of the database that a person should know. */
interface Stored {
  readonly type: StoredType;
  readonly subject: string;
  readonly notice: Notice;
  readonly recipients: readonly Recipient[];
  /** Of a low account. */
  readonly account?: LowAccount;
}

/**
 * Looks for conditions that a person should know and sends a notice of each: once while the condition holds, and once an
 * hour at most for one cause. The database remembers that, for all replicas and over restarts.
 */
export class NoticeWatch {
  readonly #options: NoticeWatchOptions;
  readonly #timer: Timer;
  #looking: Promise<void> | undefined;
  #storedDueMs = 0;
  #isClosed = false;
  /** When a live condition may be told again, in monotonic time. By type and subject. */
  readonly #liveDueMs = new Map<string, number>();
  #stored: Readonly<Record<StoredType, number>> = {
    account_low: 0,
    key_expires: 0,
    audit_failed: 0,
  };

  constructor(options: NoticeWatchOptions) {
    this.#options = options;
    this.#timer = setInterval(() => void this.look(), LIVE_EVERY_MS).unref();
  }

  /** Of the last look at the database, and of this moment. */
  counts(): Readonly<Record<NoticeCause, number>> {
    const { blockedBy, refusedProviders } = this.#options.live();
    return {
      ...this.#stored,
      provider_refused: refusedProviders.size,
      store_blocked: blockedBy === undefined ? 0 : 1,
    };
  }

  /** One look at the live conditions, and at those of the database once a minute. Never rejects. */
  async look(): Promise<void> {
    this.#looking ??= this.#look().finally(() => {
      this.#looking = undefined;
    });
    await this.#looking;
  }

  /** Waits for the look that runs. */
  async close(): Promise<void> {
    this.#isClosed = true;
    clearInterval(this.#timer);
    await this.#looking;
  }

  async #look(): Promise<void> {
    await this.#lookAtLive();
    const nowMs = this.#options.clock.monotonicMs();
    if (nowMs < this.#storedDueMs) return;
    this.#storedDueMs = nowMs + STORED_EVERY_MS;
    try {
      await this.#lookAtStored();
    } catch {
      // A full, locked or unreadable database is reported as a live condition. The next minute tries again.
    }
  }

  async #lookAtLive(): Promise<void> {
    const { clock, live } = this.#options;
    const { blockedBy, refusedProviders } = live();
    const atMs = clock.epochMs();
    if (blockedBy !== undefined) await this.#tellLive(blockedStoreNotice(blockedBy, atMs), false);
    for (const provider of refusedProviders)
      await this.#tellLive(refusedProviderNotice(provider, atMs), true);
  }

  async #tellLive(notice: Notice, isShared: boolean): Promise<void> {
    const { clock, notify, send } = this.#options;
    const recipients = operatorRecipients(notify());
    const cause = `${notice.type} ${notice.subject ?? ""}`;
    const nowMs = clock.monotonicMs();
    if (recipients.length === 0 || nowMs < (this.#liveDueMs.get(cause) ?? 0)) return;
    const isMine = !isShared || (await this.#claimLive(notice));
    this.#liveDueMs.set(cause, nowMs + (isMine ? REPEAT_MS : RETRY_CLAIM_MS));
    // A notice that was given up is repeated with the next claim.
    if (isMine) send(notice, recipients, () => undefined);
  }

  /** False if a replica or an earlier run has told the same cause within the hour. */
  async #claimLive({ type, subject = "", atMs }: Notice): Promise<boolean> {
    const { changeNotice } = this.#options;
    try {
      await changeNotice({ step: "hold", type, subject, at: atMs });
      return await changeNotice({ step: "claim", type, subject, at: atMs });
    } catch {
      // Without the database each gateway decides for itself.
      return true;
    }
  }

  async #lookAtStored(): Promise<void> {
    const { clock, store, changeNotice } = this.#options;
    const at = clock.epochMs();
    const open = await store.notices.open(STORED_TYPES);
    const found = [
      ...(await this.#lowAccounts(at)),
      ...(await this.#expiringKeys(at)),
      ...(open.some(({ type }) => type === AUDIT_FAILED) ? [this.#failedAudit(at)] : []),
    ];
    if (this.#isClosed) return;
    this.#stored = countTypes(found);
    const keyOf = ({ type, subject }: { type: string; subject: string }) => `${type} ${subject}`;
    const holding = new Set(found.map(keyOf));
    const ended = open.filter((one) => !holding.has(keyOf(one)));
    await Promise.all(
      ended.map(({ type, subject }) => changeNotice({ step: "end", type, subject, at })),
    );
    const known = new Map(open.map((one) => [keyOf(one), one]));
    const untold = found.filter((one) => {
      const record = known.get(keyOf(one));
      const isDue = !record || (!record.told && at - record.claimedAt >= REPEAT_MS);
      return isDue && one.recipients.length > 0;
    });
    const claims = await Promise.all(untold.map((one) => this.#claim(one, at)));
    this.#send(
      untold.filter((_, index) => claims[index]),
      at,
    );
  }

  async #claim({ type, subject }: Stored, at: number): Promise<boolean> {
    const { changeNotice } = this.#options;
    await changeNotice({ step: "hold", type, subject, at });
    return await changeNotice({ step: "claim", type, subject, at });
  }

  #send(claimed: readonly Stored[], at: number): void {
    const { notify, send, changeNotice } = this.#options;
    // If it cannot be written, the cause is told again after an hour.
    const told = ({ type, subject }: Stored) =>
      void changeNotice({ step: "told", type, subject, at }).catch(() => undefined);
    const operator = operatorRecipients(notify());
    const low = claimed.filter(({ account }) => account !== undefined);
    const isDigest = operator.length > 0 && low.length > SINGLE_ACCOUNTS_MAX;
    for (const one of claimed) {
      const { notice, recipients, account } = one;
      const rest = isDigest && account ? recipients.slice(operator.length) : recipients;
      if (rest.length > 0) send(notice, rest, (isDelivered) => isDelivered && told(one));
    }
    if (!isDigest) return;
    const accounts = low.flatMap(({ account }) => account ?? []);
    send(lowAccountsNotice(accounts, at), operator, (isDelivered) => {
      if (isDelivered) low.forEach(told);
    });
  }

  async #lowAccounts(at: number): Promise<Stored[]> {
    const { store, notify } = this.#options;
    const config = notify();
    const found: LowAccount[] = [];
    for (let after: number | undefined = 0; after !== undefined && !this.#isClosed;) {
      const page = await store.noticeCauses.lowAccounts(
        { after, limit: PAGE_ACCOUNTS },
        { low: config.low, days: config.lowDays },
        at,
      );
      found.push(...page.low);
      after = page.next;
      // Requests go on between two reads.
      await setImmediate();
    }
    return found.map((account) => ({
      type: "account_low",
      subject: account.name,
      notice: lowAccountNotice(account, at),
      recipients: this.#recipients(account.name, account.notifyUrl),
      account,
    }));
  }

  async #expiringKeys(at: number): Promise<Stored[]> {
    const { store, notify } = this.#options;
    const keys = await store.noticeCauses.expiringKeys(at, notify().keyExpiresMs, KEYS_MAX);
    return keys
      .filter(({ isReplaced }) => !isReplaced)
      .map((key) => ({
        type: "key_expires",
        subject: key.key,
        notice: expiringKeyNotice(key, at),
        recipients: this.#recipients(key.account, key.notifyUrl),
      }));
  }

  #failedAudit(at: number): Stored {
    return {
      type: AUDIT_FAILED,
      subject: "",
      notice: failedAuditNotice(at),
      recipients: operatorRecipients(this.#options.notify()),
    };
  }

  /** Those of the operator come first. */
  #recipients(account: string, notifyUrl: string | null): readonly Recipient[] {
    const config = this.#options.notify();
    const own = notifyUrl === null ? undefined : accountRecipient(config, account, notifyUrl);
    return [...operatorRecipients(config), ...(own ? [own] : [])];
  }
}

function countTypes(found: readonly Stored[]): Record<StoredType, number> {
  const counts = { account_low: 0, key_expires: 0, audit_failed: 0 };
  for (const { type } of found) counts[type] += 1;
  return counts;
}
