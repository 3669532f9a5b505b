import type { Clock } from "../lib/clock.ts";
import type { ConnectionError } from "../providers/upstream.ts";

/** What a notice is about. */
export type NoticeType =
  | "account_low"
  | "key_expires"
  | "provider_refused"
  | "organization_refused"
  | "provider_without_key"
  | "service_expensive"
  | "store_blocked"
  | "audit_failed"
  | "test";

/** One condition that a person should know. */
export interface Notice {
  readonly type: NoticeType;
  /** The name of the account, or the id of the key, the provider or the route. Undefined where there is none. */
  readonly subject: string | undefined;
  /** In ms since 1970. */
  readonly atMs: number;
  /** One or two sentences for a person, which say what to do. */
  readonly text: string;
  /** Facts for programs. Amounts are roubles as decimal strings (`balance_rub`), times are ISO 8601. Nothing secret. */
  readonly data: Readonly<Record<string, string | number | null>>;
}

/** A notice on its way. All attempts at all recipients have the same id, so that a recipient can drop repeats. */
export interface NoticeMessage {
  readonly id: string;
  readonly notice: Notice;
}

/** Titles of a notice of one subject and, where there are such notices, of one without. */
const TITLES: Readonly<
  Record<NoticeType, readonly [one: (subject: string) => string, many?: string]>
> = {
  account_low: [(name) => `account ${name} is low`, "accounts are low"],
  key_expires: [(key) => `key ${key} expires soon`, "keys expire soon"],
  provider_refused: [(id) => `provider ${id} refuses its key`],
  organization_refused: [(id) => `provider ${id} wants something of the organization`],
  provider_without_key: [(id) => `provider ${id} has no key`],
  service_expensive: [
    (route) => `route ${route} serves what costs more than its price`,
    "routes serve what costs more than its price",
  ],
  store_blocked: [() => "the database takes no charges"],
  audit_failed: [() => "an audit found problems"],
  test: [() => "test notice"],
};

/** The title of a notice, such as `account alice is low`. */
export function noticeTitle({ type, subject = "" }: Notice): string {
  const [one, many] = TITLES[type];
  return subject === "" && many !== undefined ? many : one(subject);
}

/**
 * Why a recipient did not take a notice:
 * - `status`: the webhook answered another status than 2xx, or the mail server refused the mail
 * - `starttls`: the mail server offers no STARTTLS, or refuses it
 * - `login`: the mail server refuses the user or the password, or offers no login
 * - the others: no connection, or no answer
 */
export type FailureReason = ConnectionError["code"] | "status" | "starttls" | "login";

export interface AttemptFailure {
  readonly reason: FailureReason;
  /** The HTTP status, or the reply code of the mail server, if there is one. */
  readonly status: number | undefined;
  /** Why, if the code alone does not say it. */
  readonly cause?: unknown;
  /** Another attempt cannot help. */
  readonly isFinal: boolean;
}

export interface AttemptOptions {
  readonly clock: Clock;
  readonly timeoutMs: number;
  /** Ends the attempt at once. */
  readonly signal: AbortSignal;
}
