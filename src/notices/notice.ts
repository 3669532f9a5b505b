/** What a notice is about. */
export type NoticeType =
  | "account_low"
  | "key_expires"
  | "provider_refused"
  | "organization_refused"
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

/** The title of a notice, such as `account alice is low`. */
export function noticeTitle({ type, subject = "" }: Notice): string {
  switch (type) {
    case "account_low":
      return subject === "" ? "accounts are low" : `account ${subject} is low`;
    case "key_expires":
      return subject === "" ? "keys expire soon" : `key ${subject} expires soon`;
    case "provider_refused":
      return `provider ${subject} refuses its key`;
    case "organization_refused":
      return `provider ${subject} wants something of the organization`;
    case "service_expensive":
      return subject === ""
        ? "routes serve what costs more than its price"
        : `route ${subject} serves what costs more than its price`;
    case "store_blocked":
      return "the database takes no charges";
    case "audit_failed":
      return "an audit found problems";
    case "test":
      return "test notice";
  }
}
