import type { Endpoint } from "../../contract/account/requestStatus.ts";

export type DemoEndpoint = Exclude<Endpoint, "embeddings">;

/** A key of a customer. */
export interface CustomerKey {
  readonly label: string;
  /** The key's part of the customer's requests, compared with the other keys. */
  readonly weight: number;
  /** Days before the end of the month. Default: with the account. */
  readonly createdDaysAgo?: number;
  readonly expiresAfterDays?: number;
  /** Default: all models. */
  readonly models?: readonly string[];
  /** In roubles. */
  readonly budget?: number;
  readonly requestsPerMinute?: number;
}

/** A credit is made when the balance falls below `below`. Amounts are roubles. */
interface Payment {
  readonly below: number;
  readonly amount: number;
  /** The beginning of each ref; a number follows. Default: no ref. */
  readonly ref?: string;
  readonly note?: string;
}

/** An account of the demo's month, and how it is used. */
export interface Customer {
  readonly account: string;
  /** When the account was created: days before the end of the month. */
  readonly sinceDaysAgo: number;
  /** In roubles. */
  readonly overdraft?: number;
  readonly payment: Payment;
  readonly keys: readonly CustomerKey[];
  /** Requests of a working day in the middle of the month. */
  readonly requestsPerDay: number;
  /** Requests of a weekend day, in percent of those of a working day. */
  readonly weekendPercent: number;
  readonly hours: "office" | "evening" | "night" | "always";
  /** At least one request for each model on each day, and some requests in the last hour. */
  readonly usesAllModelsDaily?: true;
  /** Requests that the account could not pay in full, in percent. */
  readonly writtenOffPercent?: number;
  /** Model ids with weights. */
  readonly models: Readonly<Record<string, number>>;
  /** Endpoints with weights. */
  readonly endpoints: Partial<Record<DemoEndpoint, number>>;
  /** The median numbers of tokens of a prompt and of an answer. */
  readonly promptTokens: number;
  readonly answerTokens: number;
  /** The part of a prompt that is usually cached. */
  readonly cachedPercent: number;
  readonly streamedPercent: number;
}

/** The account whose key the demo prints. */
export const DEMO_ACCOUNT = "demo";
/** The label of that key. */
export const DEMO_KEY = "demo";

export const CUSTOMERS: readonly Customer[] = [
  {
    account: DEMO_ACCOUNT,
    sinceDaysAgo: 34,
    payment: { below: 90, amount: 250, ref: "invoice-10" },
    keys: [
      { label: DEMO_KEY, weight: 6, budget: 500 },
      { label: "laptop", weight: 3 },
      { label: "ci", weight: 2, createdDaysAgo: 26, expiresAfterDays: 30, requestsPerMinute: 60 },
    ],
    requestsPerDay: 34,
    weekendPercent: 35,
    hours: "office",
    usesAllModelsDaily: true,
    models: {
      "demo-large": 4,
      "demo-small": 10,
      "demo-code": 9,
      "demo-reasoner": 3,
    },
    endpoints: { chat: 8, responses: 2, messages: 2 },
    promptTokens: 1300,
    answerTokens: 320,
    cachedPercent: 35,
    streamedPercent: 70,
  },
  {
    account: "support-desk",
    sinceDaysAgo: 120,
    payment: { below: 80, amount: 200, ref: "invoice-20", note: "weekly plan" },
    keys: [
      { label: "helpdesk", weight: 8 },
      { label: "chat widget", weight: 5, requestsPerMinute: 300, models: ["demo-small"] },
      { label: "staging", weight: 1 },
    ],
    requestsPerDay: 80,
    weekendPercent: 40,
    hours: "office",
    models: { "demo-small": 12, "demo-large": 2 },
    endpoints: { chat: 1 },
    promptTokens: 1700,
    answerTokens: 220,
    cachedPercent: 60,
    streamedPercent: 85,
  },
  {
    account: "content-studio",
    sinceDaysAgo: 75,
    payment: { below: 150, amount: 600, ref: "invoice-30" },
    keys: [
      { label: "editors", weight: 5, models: ["demo-large", "demo-small"] },
      { label: "drafts", weight: 3, budget: 650, models: ["demo-*"] },
    ],
    requestsPerDay: 34,
    weekendPercent: 55,
    hours: "evening",
    models: { "demo-large": 7, "demo-small": 3 },
    endpoints: { chat: 3, messages: 4 },
    promptTokens: 2200,
    answerTokens: 850,
    cachedPercent: 25,
    streamedPercent: 90,
  },
  {
    account: "search-team",
    sinceDaysAgo: 60,
    payment: { below: 40, amount: 200, note: "internal budget" },
    keys: [
      { label: "indexer", weight: 5, models: ["demo-small"] },
      { label: "queries", weight: 4 },
    ],
    requestsPerDay: 52,
    weekendPercent: 90,
    hours: "night",
    models: { "demo-small": 9, "demo-code": 1 },
    endpoints: { chat: 1 },
    promptTokens: 4000,
    answerTokens: 60,
    cachedPercent: 0,
    streamedPercent: 0,
  },
  {
    account: "translate.bureau",
    sinceDaysAgo: 90,
    overdraft: 2000,
    payment: { below: -700, amount: 900, ref: "transfer-4", note: "pays after use" },
    keys: [
      { label: "batch", weight: 4 },
      { label: "live", weight: 3, createdDaysAgo: 21, requestsPerMinute: 120 },
    ],
    requestsPerDay: 38,
    weekendPercent: 15,
    hours: "office",
    models: { "demo-large": 3, "demo-reasoner": 2, "demo-small": 4 },
    endpoints: { chat: 2, responses: 3 },
    promptTokens: 2600,
    answerTokens: 700,
    cachedPercent: 30,
    streamedPercent: 40,
  },
  {
    account: "student-club",
    sinceDaysAgo: 29,
    payment: { below: 3, amount: 10 },
    keys: [{ label: "club bot", weight: 1, requestsPerMinute: 20 }],
    requestsPerDay: 14,
    weekendPercent: 130,
    hours: "evening",
    writtenOffPercent: 1,
    models: { "demo-small": 7, "demo-code": 5, "demo-reasoner": 1 },
    endpoints: { chat: 1 },
    promptTokens: 700,
    answerTokens: 260,
    cachedPercent: 10,
    streamedPercent: 80,
  },
  {
    account: "old-partner",
    sinceDaysAgo: 200,
    payment: { below: 40, amount: 300, ref: "invoice-40" },
    keys: [{ label: "partner", weight: 1 }],
    requestsPerDay: 18,
    weekendPercent: 60,
    hours: "always",
    models: { "demo-small": 3, "demo-large": 1 },
    endpoints: { chat: 1 },
    promptTokens: 900,
    answerTokens: 300,
    cachedPercent: 0,
    streamedPercent: 50,
  },
];
