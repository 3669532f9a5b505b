import { expect, test } from "bun:test";
import {
  allProvidersUnavailable,
  balanceHeld,
  insufficientBalance,
  invalidApiKey,
  invalidRequest,
  modelNotFound,
  notFound,
  rateLimitExceeded,
  resourceNotFound,
  responseNotFound,
  serviceUnavailable,
  type ApiError,
} from "../../src/contract/errors.ts";

interface Row {
  name: string;
  error: ApiError;
  status: number;
  body: Record<string, unknown>;
  waitSeconds?: number;
}

const rows: Row[] = [
  {
    name: "invalidRequest",
    error: invalidRequest("model is required"),
    status: 400,
    body: { message: "model is required", type: "invalid_request_error" },
  },
  {
    name: "invalidRequest with the provider's fields",
    error: invalidRequest("too long", { code: "context_length_exceeded", param: null }),
    status: 400,
    body: {
      message: "too long",
      type: "invalid_request_error",
      code: "context_length_exceeded",
      param: null,
    },
  },
  {
    name: "invalidApiKey",
    error: invalidApiKey(),
    status: 401,
    body: { message: "invalid api key", type: "auth_error" },
  },
  {
    name: "insufficientBalance",
    error: insufficientBalance("12.5", "0.000000001"),
    status: 402,
    body: {
      message: "insufficient balance",
      type: "billing_error",
      code: "insufficient_balance",
      required_rub: "12.5",
      available_rub: "0.000000001",
    },
  },
  {
    name: "modelNotFound",
    error: modelNotFound(),
    status: 404,
    body: { message: "model not found", type: "invalid_request_error" },
  },
  {
    name: "notFound",
    error: notFound(),
    status: 404,
    body: { message: "not found", type: "invalid_request_error" },
  },
  {
    name: "responseNotFound",
    error: responseNotFound(),
    status: 404,
    body: { message: "response not found", type: "invalid_request_error" },
  },
  {
    name: "resourceNotFound",
    error: resourceNotFound(),
    status: 404,
    body: { message: "resource not found", type: "invalid_request_error" },
  },
  {
    name: "rateLimitExceeded",
    error: rateLimitExceeded(7000),
    status: 429,
    body: { message: "rate limit exceeded", type: "rate_limit_error" },
    waitSeconds: 7,
  },
  {
    name: "balanceHeld",
    error: balanceHeld("12.5", "3"),
    status: 429,
    body: {
      message: "rate limit exceeded",
      type: "rate_limit_error",
      code: "balance_held",
      required_rub: "12.5",
      available_rub: "3",
    },
    waitSeconds: 1,
  },
  {
    name: "allProvidersUnavailable",
    error: allProvidersUnavailable(),
    status: 502,
    body: { message: "all providers unavailable", type: "provider_error" },
  },
  {
    name: "allProvidersUnavailable with a wait",
    error: allProvidersUnavailable(3000),
    status: 502,
    body: { message: "all providers unavailable", type: "provider_error" },
    waitSeconds: 3,
  },
  {
    name: "serviceUnavailable",
    error: serviceUnavailable(new Error("disk full at /var/lib")),
    status: 502,
    body: { message: "service temporarily unavailable", type: "provider_error" },
  },
];

test.each(rows)("$name has the status, the body and the wait of its row", (row) => {
  const { error, status, body, waitSeconds } = row;
  expect(error.status as number).toBe(status);
  expect(JSON.parse(JSON.stringify(error.toBody()))).toEqual({ error: body });
  expect(error.retryAfterSeconds).toBe(waitSeconds);
});

test.each([
  [0, 1],
  [-5, 1],
  [0.2, 1],
  [1, 1],
  [1.001, 2],
  [59.5, 60],
  [Number.NaN, 1],
  [Infinity, 1],
])("a wait of %p seconds is sent as %p", (given, sent) => {
  expect(rateLimitExceeded(given * 1000).retryAfterSeconds).toBe(sent);
  expect(allProvidersUnavailable(given * 1000).retryAfterSeconds).toBe(sent);
});

test("the cause of our own fault is kept for the log, and stays out of the body", () => {
  const cause = new Error("disk full");
  const error = serviceUnavailable(cause);
  expect(error.cause).toBe(cause);
  expect(JSON.stringify(error.toBody())).not.toContain("disk");
});
