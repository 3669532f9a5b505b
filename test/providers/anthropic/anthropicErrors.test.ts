import { describe, expect, test } from "bun:test";
import { errorOfReply } from "../../../src/providers/errorReply.ts";

/** An error in the form of https://platform.claude.com/docs/en/api/errors. */
function errorOf(status: number, type: string, message: string, retryAfter?: string) {
  const body = {
    type: "error",
    error: { type, message },
    request_id: "req_011CSHoEeqs5C35K2UUqR7Fy",
  };
  return errorOfReply(status, retryAfter, JSON.stringify(body), { values: [], hosts: [] });
}

describe("an error of the Messages API", () => {
  test.each([
    [401, "authentication_error", "invalid x-api-key"],
    [402, "billing_error", "Billing error"],
    [
      403,
      "permission_error",
      "Your API key does not have permission to use the specified resource",
    ],
    [
      400,
      "invalid_request_error",
      "Your credit balance is too low to access the Anthropic API. Please go to Plans & Billing.",
    ],
    [
      400,
      "invalid_request_error",
      "You have reached your specified API usage limits. You will regain access on 2026-04-01 at 00:00 UTC.",
    ],
    [
      400,
      "invalid_request_error",
      "You have reached your specified workspace API usage limits. You will regain access on 2026-04-01 at 00:00 UTC.",
    ],
    [400, "invalid_request_error", "This organization has been disabled."],
  ])("%d %s: %s is the operator's account, and not shown", (status, type, message) => {
    expect(errorOf(status, type, message)).toMatchObject({ fault: "account", shown: undefined });
  });

  test.each([
    [400, "invalid_request_error", "max_tokens: 999999 > 64000, which is the maximum allowed"],
    [400, "invalid_request_error", "prompt is too long: 210000 tokens > 200000 maximum"],
    [400, "invalid_request_error", "temperature: range: 0..1"],
    [409, "conflict_error", "The request conflicts with the current state"],
    [413, "request_too_large", "Request exceeds the maximum size"],
  ])("%d %s: %s is the caller's, and shown", (status, type, message) => {
    expect(errorOf(status, type, message)).toMatchObject({ fault: "caller", shown: { message } });
  });

  test.each([
    "messages.0.content: 'Your credit balance is too low' is not of type 'array'",
    "tools.0.name: 'This organization has been disabled' should match pattern",
    "You have reached your specified limit of 20 strict tools",
  ])("%s puts the provider aside for nobody", (message) => {
    expect(errorOf(400, "invalid_request_error", message).fault).toBe("caller");
  });

  test.each([
    [500, "api_error", "Internal server error"],
    [504, "timeout_error", "The request timed out while processing"],
    [529, "overloaded_error", "Overloaded"],
  ])("%d %s is the provider's fault, and not shown", (status, type, message) => {
    expect(errorOf(status, type, message)).toMatchObject({ fault: "provider", shown: undefined });
  });

  test("429 is its rate limit, with the delay that it asks for", () => {
    const message = "This request would exceed your account's rate limit. Please try again later.";
    expect(errorOf(429, "rate_limit_error", message, "17")).toMatchObject({
      fault: "limited",
      retryAfterMs: 17_000,
      shown: undefined,
    });
  });

  test("404 is left to the call: in chat it is the provider's fault", () => {
    expect(errorOf(404, "not_found_error", "model: claude-none").fault).toBe("missing");
  });
});
