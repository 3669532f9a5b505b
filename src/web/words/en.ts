import { countedIn } from "./plurals.ts";

const counted = countedIn("en");

/** Words of both pages. */
export const shared = {
  product: "Tollgate",
  skipToContent: "Skip to content",
  navigation: "Views",
  none: "—",
  copy: "Copy",
  copied: "Copied",
  copyFailed: "The browser did not allow copying. Select the text and copy it yourself.",
  copyCsv: "Copy CSV",
  copiedRows: (count: number) => `Copied ${counted(count, { one: "row", other: "rows" })} as CSV`,
  close: "Close",
  cancel: "Cancel",
  confirm: "Confirm",
  dismiss: "Dismiss",
  retry: "Try again",
  more: "Show more",
  loading: "Loading",
  reload: "Reload",
  search: "Search",
  clear: "Clear",
  optional: "optional",
  before: "Before",
  after: "After",
  total: "Total",
  other: (count: number) => counted(count, { one: "other", other: "others" }),
  requests: (count: number) => counted(count, { one: "request", other: "requests" }),
  tokens: (count: number) => counted(count, { one: "token", other: "tokens" }),
  accounts: (count: number) => counted(count, { one: "account", other: "accounts" }),
  keys: (count: number) => counted(count, { one: "key", other: "keys" }),
  days: (count: number) => counted(count, { one: "day", other: "days" }),
  empty: "Nothing here yet",
  nothingFound: "Nothing found",
  opensElsewhere: "opens in a new tab",
  loadFailed: "This could not be loaded.",
  shownEarlier: "These figures are from before the failure.",
  noConnection: "No connection to the gateway.",
  badAnswer: "The gateway sent an answer that this page cannot read.",
  retryAfter: (seconds: number) =>
    `Try again in ${counted(seconds, { one: "second", other: "seconds" })}.`,
  spans: {
    label: "Time span",
    "24h": "24 hours",
    "7d": "7 days",
    "30d": "30 days",
    "90d": "90 days",
  },
  change: {
    up: (share: string) => `up ${share} on the span before`,
    down: (share: string) => `down ${share} on the span before`,
    none: "as in the span before",
    noneText: "no change",
    fresh: "nothing in the span before",
    freshText: "new",
  },
  meter: { of: (used: string, limit: string) => `${used} of ${limit}` },
  sort: (column: string) => `Sort by ${column}`,
  chart: {
    form: "Form",
    chart: "Chart",
    table: "Table",
    time: "Time",
    day: "Day (UTC)",
    hour: "Hour",
    cursor: (caption: string) => `${caption}: read the values`,
    empty: "No figures in this span",
    wholeSpan: "Whole span",
    daysAreUtc: "Days are UTC.",
    hoursAreLocal: (zone: string) => `Hours in ${zone}.`,
  },
  status: {
    running: "running",
    done: "done",
    failed: "failed",
    cancelled: "cancelled",
    interrupted: "interrupted",
  },
  expired: "expired",
};

/** Words of the key holder's page. */
export const page = {
  title: "Your key",
};

/** Words of the operator's console. */
export const console = {
  title: "Console",
  views: {
    "": "Overview",
    accounts: "Accounts",
    keys: "Keys",
    requests: "Requests",
    providers: "Providers",
    vouchers: "Vouchers",
    audit: "Audit",
  },
  session: {
    over: "This console is not open",
    howToOpen:
      "Its address works once, and an hour without use ends it. Run this command on the server again, and open the address that it prints:",
    lost: "No connection to the console. The page keeps trying. If the command has ended, run it again.",
    end: "End",
  },
  foot: (state: { version: string; actor: string; database: string }, timeZone: string) =>
    `Tollgate ${state.version}. Changes are logged as ${state.actor}. Database: ${state.database}. Times: ${timeZone}.`,
};
