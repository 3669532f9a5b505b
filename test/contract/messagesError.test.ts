import { expect, test } from "bun:test";
import {
  allProvidersUnavailable,
  balanceHeld,
  insufficientBalance,
  invalidApiKey,
  invalidRequest,
  modelNotFound,
  rateLimitExceeded,
  serviceUnavailable,
  type ApiError,
} from "../../src/contract/errors.ts";
import { messagesErrorBody } from "../../src/contract/messages/messagesAnswer.ts";

const held = { code: "balance_held", required_rub: "2", available_rub: "1" };
const short = { ...held, code: "insufficient_balance" };
const ofProvider = { code: "context_length_exceeded", param: "messages" };

test.each<[number, string, string, object, ApiError]>([
  [400, "invalid_request_error", "no model", {}, invalidRequest("no model")],
  [400, "invalid_request_error", "too long", ofProvider, invalidRequest("too long", ofProvider)],
  [401, "authentication_error", "invalid api key", {}, invalidApiKey()],
  [402, "billing_error", "insufficient balance", short, insufficientBalance("2", "1")],
  [404, "not_found_error", "model not found", {}, modelNotFound()],
  [429, "rate_limit_error", "rate limit exceeded", {}, rateLimitExceeded()],
  [429, "rate_limit_error", "rate limit exceeded", held, balanceHeld("2", "1")],
  [502, "api_error", "all providers unavailable", {}, allProvidersUnavailable()],
  [502, "overloaded_error", "all providers unavailable", {}, allProvidersUnavailable(7000)],
  [502, "api_error", "service temporarily unavailable", {}, serviceUnavailable("the disk")],
])("a %d is %s in Anthropic's form: %s, %j", (status, type, message, extra, error) => {
  expect(error.status as number).toBe(status);
  expect(messagesErrorBody(error, "req_1")).toEqual({
    type: "error",
    error: { type: type as never, message, ...extra },
    request_id: "req_1",
  });
});
