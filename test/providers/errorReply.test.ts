import { describe, expect, test } from "bun:test";
import { errorOfReply } from "../../src/providers/errorReply.ts";

interface ReportedError {
  message?: string;
  code?: string | number | null;
  type?: string | null;
}

const noSecrets = { values: [], hosts: [] };

function faultOf(status: number, error: ReportedError): string {
  return errorOfReply(status, undefined, JSON.stringify({ error }), noSecrets).fault;
}

describe("the operator's account is at fault", () => {
  test.each<[number, ReportedError]>([
    [401, {}],
    [402, {}],
    [402, { message: "Insufficient Balance", type: "unknown_error" }],
    [400, { code: "billing_hard_limit_reached" }],
    [400, { code: "Arrearage", type: "Arrearage" }],
    [400, { message: "Your credit balance is too low to access the API." }],
    [429, { code: "insufficient_quota", type: "insufficient_quota" }],
    [429, { code: null, type: "insufficient_quota" }],
    [429, { code: "billing_not_active" }],
    [429, { type: "exceeded_current_quota_error" }],
    [403, { type: "permission_error" }],
    [403, { code: "unsupported_country_region_territory", type: "request_forbidden" }],
    [403, { code: "AccountOverdueError" }],
    [403, { code: 403, message: "Permission denied: the consumer is suspended" }],
    [403, { message: "Your API key does not have permission to use this resource" }],
    [403, { message: "Sorry, your account balance is insufficient" }],
    [403, { message: "Your newly created team doesn't have any credits yet." }],
    [403, { message: "You have insufficient permissions for this operation." }],
    [403, { message: "Country, region, or territory not supported" }],
  ])("%d %j", (status, error) => {
    expect(faultOf(status, error)).toBe("account");
  });
});

/** What a provider says of a field or a prompt of the client's, which are in the client's hands. */
const echoes = [
  "Unknown parameter: 'insufficient_quota'",
  "Unknown parameter: 'insufficient balance'",
  "'Your credit balance is too low' is not of type 'array'",
  "Invalid value: 'exceeded your current quota'",
  "billing_hard_limit_reached is not a valid role",
  "Unknown name: 'api key'",
];

describe("a client's own text in a provider's words switches nothing off", () => {
  test.each(echoes)("%s", (message) => {
    expect(faultOf(400, { message, type: "invalid_request_error", code: null })).toBe("caller");
    expect(faultOf(429, { message, type: "tokens", code: "rate_limit_exceeded" })).toBe("limited");
    expect(faultOf(403, { message, type: "some_error", code: null })).toBe("provider");
  });
});

describe("a 403 that says nothing of the account is about this one request", () => {
  test.each<[ReportedError]>([
    [{}],
    [{ message: "forbidden" }],
    [{ message: "Content violates usage guidelines. Team: t, API key ID: k, failed check: x" }],
    [{ code: 403, message: 'some/model requires moderation. Your input was flagged for "x".' }],
    [{ message: "Your input was refused. No credits were charged to your account." }],
    [{ message: "The keyword is not allowed" }],
  ])("%j", (error) => {
    expect(faultOf(403, error)).toBe("provider");
  });

  test.each(["<html>Sorry, you have been blocked: your account</html>", "", "[]"])(
    "also one of another form: %s",
    (text) => {
      expect(errorOfReply(403, undefined, text, noSecrets).fault).toBe("provider");
    },
  );
});
