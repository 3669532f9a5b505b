import type { ReportedError } from "./reportedError.ts";
import type { AccountFault, UpstreamFault } from "./upstreamError.ts";

/**
 * What providers say when they refuse more than this one request. A row matches by all of its fields. Only words that no
 * client's text can be are here: fixed codes, whole messages, and beginnings of messages. A message can repeat a
 * client's text, and any client could put the provider in cooldown with it.
 */
interface RefusalRow {
  readonly fault: Extract<UpstreamFault, "account" | "operator" | "modelQuota" | "isolated">;
  /** What an account lacks, if the row tells. */
  readonly means?: AccountFault;
  /** Missing: any status below 500. */
  readonly statuses?: readonly number[] | "any";
  /** Of `code` or `type`, in lower case. */
  readonly codes?: ReadonlySet<string> | RegExp;
  /** Of the whole message, in lower case, without its last period. */
  readonly messages?: ReadonlySet<string>;
  /** Of the beginning of the message. */
  readonly sentence?: RegExp;
  /** Google's reason. */
  readonly reason?: RegExp;
}

/** Also as a whole message, with spaces, such as DeepSeek's "Insufficient Balance", whose type and code say nothing. */
const EMPTY_CODES = [
  "insufficient_quota",
  "insufficient_balance",
  "insufficient_credits",
  "insufficient_funds",
  "billing_error",
  "billing_hard_limit_reached",
  "billing_not_active",
  "exceeded_current_quota_error",
  "arrearage",
];
/** https://api-docs.deepseek.com/quick_start/error_codes, and messages of SiliconFlow and OpenAI. */
const EMPTY_MESSAGES = new Set([
  ...EMPTY_CODES.flatMap((code) => [code, code.replaceAll("_", " ")]),
  "sorry, your account balance is insufficient",
  "billing hard limit has been reached",
]);

/** With any status. A failed dependency (424) is asked before: the caller's own server can write its message. */
const EMPTY_ACCOUNT: readonly RefusalRow[] = [
  { fault: "account", means: "empty", statuses: "any", codes: new Set(EMPTY_CODES) },
  { fault: "account", means: "empty", statuses: "any", messages: EMPTY_MESSAGES },
];

/** The first row that matches counts. */
const ROWS: readonly RefusalRow[] = [
  // OpenRouter's, for the bound or the prompt of this request. With nothing left the account is empty.
  {
    fault: "isolated",
    statuses: [402],
    sentence:
      /^(?:This request requires more credits, or fewer max_tokens\b(?!.{0,99}\bcan only afford -?0\b)|Prompt tokens limit exceeded\b)/,
  },
  // OpenAI's and Groq's. The second one is the operator's whole organization, which he alone can ask about.
  {
    fault: "operator",
    sentence:
      /^(?:Your organization must (?:be verified|qualify)\b|(?:This |Your )?Organization has been restricted\b)/i,
  },
  {
    fault: "operator",
    codes: new Set(["organization_restricted", "organization_not_verified"]),
  },
  // Alibaba's free quota of a model, and the limit that an operator sets for a model at Volcengine:
  // https://www.alibabacloud.com/help/en/model-studio/error-code
  {
    fault: "modelQuota",
    codes: new Set(["allocationquota.freetieronly", "setlimitexceeded"]),
  },
  // Google's, for a wrong key also with 400: https://ai.google.dev/gemini-api/docs/troubleshooting and
  // https://github.com/googleapis/googleapis/blob/master/google/api/error_reason.proto
  { fault: "account", means: "key", reason: /^API_KEY_\w+$/ },
  { fault: "account", means: "empty", reason: /^BILLING_DISABLED$/ },
  {
    fault: "account",
    reason:
      /^(?:SERVICE_DISABLED|CONSUMER_(?:INVALID|SUSPENDED)|USER_PROJECT_DENIED|ACCOUNT_STATE_INVALID)$/,
  },
  ...EMPTY_ACCOUNT,
  { fault: "account", means: "key", statuses: [401] },
  { fault: "account", means: "empty", statuses: [402] },
  // An empty and a locked account of Zhipu: https://docs.z.ai/api-reference/api-code
  { fault: "account", means: "empty", statuses: [429], codes: new Set(["1113"]) },
  { fault: "account", statuses: [429], codes: new Set(["1112"]) },
  // xAI answers a wrong key with 400. The fixed end of the sentence shows that no client's text follows the key.
  {
    fault: "account",
    means: "key",
    statuses: [400, 403, 429],
    sentence:
      /^Incorrect API key provided: \S{1,128} You can obtain an API key from https:\/\/[a-z.]{1,64}$/,
  },
  {
    fault: "account",
    means: "empty",
    statuses: [400, 403, 429],
    sentence:
      /^(?:Your credit balance is too low|Your prepayment credits are depleted|Your team \S{1,64} has either used all available credits or reached its monthly spending limit|Your newly created team doesn't have any credits)\b/,
  },
  {
    fault: "account",
    means: "country",
    statuses: [400, 403, 429],
    sentence: /^(?:User location is not supported for|Gemini API free tier is not available in)\b/,
  },
  {
    fault: "account",
    statuses: [400, 403, 429],
    sentence:
      /^(?:You have reached your specified (?:\w+ )?API usage limits|This organization has been disabled)\b/,
  },
  // The last rows are for the status that says nothing more. No word of permissions is here: a client gets it for an
  // object or a feature that he names.
  { fault: "account", means: "country", statuses: [403], codes: /country|region/ },
  {
    fault: "account",
    means: "country",
    statuses: [403],
    sentence: /^(?:(?:this|your|unsupported) )?(?:country|region)\b/i,
  },
  { fault: "account", means: "key", statuses: [403], codes: /api_?key/ },
  {
    fault: "account",
    means: "key",
    statuses: [403],
    sentence:
      /^(?:(?:invalid|incorrect) api[ _-]?key\b|Method doesn't allow unregistered callers\b)/i,
  },
  { fault: "account", means: "empty", statuses: [403], codes: /billing|balance|credit|overdue/ },
  { fault: "account", statuses: [403], codes: /account/ },
  {
    fault: "account",
    means: "empty",
    statuses: [403],
    sentence: /^insufficient (?:account )?(?:balance|credits?|funds)\b/i,
  },
  {
    fault: "account",
    statuses: [403],
    sentence:
      /^(?:(?:your|this|the) )?(?:api[ _-]?key|account|organization|team|project|subscription) (?:is|was|has been|has) (?:\w+ )?(?:disabled|deactivated|suspended|terminated|blocked|banned|closed|locked|overdue|expired|revoked|invalid|not valid)\b|^Permission denied: (?:the )?consumer\b.{0,99}\bsuspended\b/i,
  },
];

/** The first row for an error with this status; undefined if it refuses no more than the request, or does not tell. */
export function refusalOf(status: number, error: ReportedError): RefusalRow | undefined {
  return firstMatch(ROWS, status, error);
}

/** True if the code, the type or the whole message says that the operator's account is empty. */
export function isEmptyAccount(error: ReportedError): boolean {
  return firstMatch(EMPTY_ACCOUNT, 0, error) !== undefined;
}

/** True if the whole message says so. */
export function isEmptyAccountMessage(error: ReportedError): boolean {
  return EMPTY_MESSAGES.has(wholeMessage(error));
}

function firstMatch(
  rows: readonly RefusalRow[],
  status: number,
  error: ReportedError,
): RefusalRow | undefined {
  const { message = "", reason = "" } = error;
  const whole = wholeMessage(error);
  const codes = [error.code, error.type].map((word) => word?.toLowerCase() ?? "");
  return rows.find((row) => {
    const { statuses, codes: known, messages, sentence } = row;
    if (statuses === undefined ? status >= 500 : statuses !== "any" && !statuses.includes(status))
      return false;
    if (known && !codes.some((word) => isAmong(known, word))) return false;
    if (messages && !messages.has(whole)) return false;
    if (sentence && !sentence.test(message)) return false;
    return !row.reason || row.reason.test(reason);
  });
}

function isAmong(known: ReadonlySet<string> | RegExp, word: string): boolean {
  return known instanceof RegExp ? known.test(word) : known.has(word);
}

function wholeMessage({ message, words }: ReportedError): string {
  return (message || words || "").trim().toLowerCase().replace(/[.!]$/, "");
}
