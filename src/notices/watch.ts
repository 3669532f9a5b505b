import { setImmediate } from "node:timers/promises";
import type { NotifyConfig } from "../config/schema.ts";
import type { Clock } from "../lib/clock.ts";
import { AUDIT_FAILED, type LowAccount, type NoticeChange, type Store } from "../store/store.ts";
import {
  blockedStoreNotice,
  digestNotice,
  expensiveRouteNotice,
  expensiveRoutesNotice,
  expiringKeyNotice,
  failedAuditNotice,
  lowAccountNotice,
  missingKeyNotice,
  refusedOrganizationNotice,
  refusedProviderNotice,
  type Audience,
  type BlockedBy,
} from "./messages.ts";
import type { Log } from "../telemetry/log.ts";
import type { NoticeCause, RouteServices } from "../telemetry/metrics.ts";
import type { Notice } from "./notice.ts";
import { accountRecipient, operatorRecipients, type Recipient } from "./recipients.ts";

/** Conditions that the gateway knows without asking its database. */
export interface LiveConditions {
  /** Why the database takes no charge now; undefined if it does. */
  readonly blockedBy: BlockedBy | undefined;
  /** The ids of the providers that refuse the key or the account. */
  readonly refusedProviders: ReadonlySet<string>;
  /** The ids of the providers that need an action of the operator, such as a verification. */
  readonly refusedOrganizations: ReadonlySet<string>;
  /** The ids of the providers without a key, because it could not be got. */
  readonly providersWithoutKey: ReadonlySet<string>;
  /** The routes with services that cost more than the price covers. */
  readonly expensiveRoutes: readonly RouteServices[];
}

export interface NoticeWatchOptions {
  readonly clock: Clock;
  readonly log: Pick<Log, "warn">;
  readonly store: Pick<Store, "notices" | "noticeCauses">;
  /** Resolves with true for a claim that this gateway has got. Rejects if the database cannot be written. */
  readonly changeNotice: (change: NoticeChange) => Promise<boolean>;
  readonly notify: () => NotifyConfig;
  readonly live: () => LiveConditions;
  /** Sends in the background. `settled` is called once: with true if a recipient took the notice. */
  readonly send: (
    notice: Notice,
    recipients: readonly Recipient[],
    settled: (isDelivered: boolean) => void,
  ) => void;
}

/** How often the live conditions are looked at; then how often those of the database are. */
const LIVE_EVERY_MS = 5000;
const STORED_EVERY_MS = 60_000;
/** The accounts of one read, which blocks the thread for some milliseconds at most. */
const PAGE_ACCOUNTS = 200;
const KEYS_MAX = 1000;
/** The operator gets one notice for more conditions of a type than this at once. */
const SINGLE_MAX = 10;
/** Changes of records that are written together. Others are written between them. */
const CHANGES_AT_ONCE = 50;
/** A live condition is told again after this time. So is a cause whose notice did not arrive. */
const REPEAT_MS = 3_600_000;
/** How long a gateway waits before it tries again to claim a live condition that another gateway has claimed. */
const RETRY_CLAIM_MS = 60_000;

type StoredType = "account_low" | "key_expires" | "audit_failed";

/** A notice to the holder of an account has a record of its own, so that nobody misses what the operator was told. */
const HOLDERS = { account_low: "account_low_holder", key_expires: "key_expires_holder" } as const;
const RECORD_TYPES: readonly string[] = [
  "account_low",
  "key_expires",
  AUDIT_FAILED,
  ...Object.values(HOLDERS),
];

/** The key of a record. */
interface Cause {
  readonly type: string;
  readonly subject: string;
}

/** A condition that one audience should know. */
interface Condition {
  readonly audience: Audience;
  readonly cause: Cause;
  /**
   * `once`: once while it holds, by its record. `hourly`: each hour while it holds, by one of the gateways. `alone`:
   * each hour, by each gateway, because no record can be written.
   */
  readonly told: "once" | "hourly" | "alone";
  readonly notice: Notice;
  readonly recipients: readonly Recipient[];
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
  /** The config for which the log has named an account's address that cannot be used. */
  #unusableIn: NotifyConfig | undefined;
  #stored: Readonly<Record<StoredType, number>> = {
    account_low: 0,
    key_expires: 0,
    audit_failed: 0,
  };

  constructor(options: NoticeWatchOptions) {
    this.#options = options;
    this.#timer = setInterval(() => void this.look(), LIVE_EVERY_MS).unref();
  }

  /** The number of conditions by cause, of the last look at the database and of this moment. */
  counts(): Readonly<Record<NoticeCause, number>> {
    const { blockedBy, ...live } = this.#options.live();
    return {
      ...this.#stored,
      provider_refused: live.refusedProviders.size,
      organization_refused: live.refusedOrganizations.size,
      provider_without_key: live.providersWithoutKey.size,
      service_expensive: live.expensiveRoutes.length,
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
    const { clock } = this.#options;
    const at = clock.epochMs();
    const nowMs = clock.monotonicMs();
    const live = this.#live(at).filter(
      ({ cause, recipients }) =>
        recipients.length > 0 && nowMs >= (this.#liveDueMs.get(nameOf(cause)) ?? 0),
    );
    const mine = new Set(await this.#tell(live, at));
    for (const one of live)
      this.#liveDueMs.set(nameOf(one.cause), nowMs + (mine.has(one) ? REPEAT_MS : RETRY_CLAIM_MS));
    if (nowMs < this.#storedDueMs) return;
    this.#storedDueMs = nowMs + STORED_EVERY_MS;
    try {
      await this.#lookAtStored(at);
    } catch {
      // A full, locked or unreadable database is reported as a live condition. The next minute tries again.
    }
  }

  #live(at: number): readonly Condition[] {
    const { live, notify } = this.#options;
    const { blockedBy, expensiveRoutes, ...providers } = live();
    const notices = [
      ...(blockedBy === undefined ? [] : [blockedStoreNotice(blockedBy, at)]),
      ...noticesOf(providers.refusedProviders, refusedProviderNotice, at),
      ...noticesOf(providers.refusedOrganizations, refusedOrganizationNotice, at),
      ...noticesOf(providers.providersWithoutKey, missingKeyNotice, at),
      ...(expensiveRoutes.length > SINGLE_MAX
        ? [expensiveRoutesNotice(expensiveRoutes.length, at)]
        : expensiveRoutes.map((route) => expensiveRouteNotice(route, at))),
    ];
    const recipients = operatorRecipients(notify());
    return notices.map((notice) => {
      const { type, subject = "" } = notice;
      const told = type === "store_blocked" ? "alone" : "hourly";
      return { audience: "operator", cause: { type, subject }, told, notice, recipients };
    });
  }

  async #lookAtStored(at: number): Promise<void> {
    const records = await this.#options.store.notices.open(RECORD_TYPES);
    const audits = records.filter(({ type }) => type === AUDIT_FAILED);
    const low = await this.#lowAccounts(at);
    const expiring = await this.#expiringKeys(at);
    const found = [...audits.map((cause) => this.#failedAudit(cause, at)), ...low, ...expiring];
    if (this.#isClosed) return;
    const isOperators = ({ audience }: Condition): boolean => audience === "operator";
    this.#stored = {
      account_low: low.filter(isOperators).length,
      key_expires: expiring.filter(isOperators).length,
      audit_failed: audits.length,
    };
    // Without recipients the gateway would end conditions that another replica tells.
    if (!this.#hasRecipients()) return;
    const holding = new Set(found.map(({ cause }) => nameOf(cause)));
    const ended = records.filter((record) => !holding.has(nameOf(record)));
    await inGroups(ended, (record) => this.#change("end", record, at));
    const known = new Map(records.map((record) => [nameOf(record), record]));
    const untold = found.filter(({ cause, recipients }) => {
      const record = known.get(nameOf(cause));
      const isDue = !record || (!record.told && Math.abs(at - record.claimedAt) >= REPEAT_MS);
      return isDue && recipients.length > 0;
    });
    await this.#tell(untold, at);
  }

  #change(step: NoticeChange["step"], { type, subject }: Cause, at: number): Promise<boolean> {
    return this.#options.changeNotice({ step, type, subject, at });
  }

  /** False if a replica or an earlier run has claimed it. */
  async #claim({ cause, told }: Condition, at: number): Promise<boolean> {
    if (told === "alone") return true;
    try {
      await this.#change("hold", cause, at);
      return await this.#change("claim", cause, at);
    } catch (error) {
      // Without the database each gateway decides for itself.
      if (told === "hourly") return true;
      throw error;
    }
  }

  /**
   * Claims the conditions and sends those that it got, and returns them. The operator is told first, because the holders may
   * have slow receivers.
   */
  async #tell(conditions: readonly Condition[], at: number): Promise<readonly Condition[]> {
    const claims = await inGroups(conditions, (one) => this.#claim(one, at));
    const claimed = conditions.filter((_, index) => claims[index]);
    const operators = claimed.filter(({ audience }) => audience === "operator");
    for (const [type, ofType] of Map.groupBy(operators, ({ notice }) => notice.type)) {
      const [first] = ofType;
      const canJoin = type === "account_low" || type === "key_expires";
      if (canJoin && first && ofType.length > SINGLE_MAX) {
        const subjects = ofType.map(({ cause }) => cause.subject);
        this.#send(digestNotice(type, subjects, at), first.recipients, ofType, at);
      } else for (const one of ofType) this.#send(one.notice, one.recipients, [one], at);
    }
    for (const one of claimed)
      if (one.audience === "holder") this.#send(one.notice, one.recipients, [one], at);
    return claimed;
  }

  #send(
    notice: Notice,
    recipients: readonly Recipient[],
    told: readonly Condition[],
    at: number,
  ): void {
    const once = told.filter((one) => one.told === "once");
    this.#options.send(notice, recipients, (isDelivered) => {
      // A notice that was given up is sent again with the next claim. So is one whose claim could not be written.
      if (isDelivered)
        inGroups(once, ({ cause }) => this.#change("told", cause, at)).catch(() => undefined);
    });
  }

  async #lowAccounts(at: number): Promise<Condition[]> {
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
    return found.flatMap((account) =>
      this.#forBoth("account_low", account.name, account.name, account.notifyUrl, () =>
        lowAccountNotice(account, at),
      ),
    );
  }

  /** A key whose whole life is no longer than `key_expires` is left out: it would be told as soon as it is made. */
  async #expiringKeys(at: number): Promise<Condition[]> {
    const { store, notify } = this.#options;
    const { keyExpiresMs } = notify();
    const keys = await store.noticeCauses.expiringKeys(at, keyExpiresMs, KEYS_MAX);
    return keys
      .filter((key) => !key.isReplaced && key.expiresAt - key.createdAt > keyExpiresMs)
      .flatMap((key) =>
        this.#forBoth("key_expires", key.key, key.account, key.notifyUrl, (audience) =>
          expiringKeyNotice(key, audience, at),
        ),
      );
  }

  #failedAudit({ type, subject }: Cause, at: number): Condition {
    return {
      audience: "operator",
      cause: { type, subject },
      told: "once",
      notice: failedAuditNotice(at),
      recipients: operatorRecipients(this.#options.notify()),
    };
  }

  /**
   * The condition for the operator. And for the holder of the account, if the account has an address that can be used.
   */
  #forBoth(
    type: keyof typeof HOLDERS,
    subject: string,
    account: string,
    notifyUrl: string | null,
    noticeFor: (audience: Audience) => Notice,
  ): readonly Condition[] {
    const config = this.#options.notify();
    const conditionFor = (audience: Audience, recipients: readonly Recipient[]): Condition => ({
      audience,
      told: "once",
      cause: { type: audience === "operator" ? type : HOLDERS[type], subject },
      notice: noticeFor(audience),
      recipients,
    });
    const holder = notifyUrl === null ? undefined : accountRecipient(config, account, notifyUrl);
    if (notifyUrl !== null && holder === undefined) this.#tellUnusable(config);
    return [
      conditionFor("operator", operatorRecipients(config)),
      ...(holder ? [conditionFor("holder", [holder])] : []),
    ];
  }

  #hasRecipients(): boolean {
    const { webhook, secret, mail } = this.#options.notify();
    return webhook !== undefined || secret !== undefined || mail !== undefined;
  }

  /** Once for each config. */
  #tellUnusable(config: NotifyConfig): void {
    if (this.#unusableIn === config) return;
    this.#unusableIn = config;
    this.#options.log.warn("account_address_unusable");
  }
}

/** Runs the work for some items at once, and then for the next ones. Resolves with the results in the order of the items. */
async function inGroups<Item, Result>(
  items: readonly Item[],
  work: (item: Item) => Promise<Result>,
): Promise<Result[]> {
  const results: Result[] = [];
  for (let first = 0; first < items.length; first += CHANGES_AT_ONCE)
    results.push(...(await Promise.all(items.slice(first, first + CHANGES_AT_ONCE).map(work))));
  return results;
}

function noticesOf(
  subjects: Iterable<string>,
  noticeOf: (subject: string, at: number) => Notice,
  at: number,
): readonly Notice[] {
  return Array.from(subjects, (subject) => noticeOf(subject, at));
}

function nameOf({ type, subject }: Cause): string {
  return `${type} ${subject}`;
}
