import { describe, expect, test } from "bun:test";
import { errorOfReply } from "../../src/providers/errorReply.ts";

interface ReportedError {
  message?: string;
  code?: string | number | null;
  type?: string | null;
  status?: string;
  details?: unknown;
}

const noSecrets = { values: [], hosts: [] };

function replyOf(status: number, body: unknown, retryAfter?: string) {
  return errorOfReply(status, retryAfter, JSON.stringify(body), noSecrets);
}

function faultOf(status: number, error: ReportedError): string {
  return replyOf(status, { error }).fault;
}

describe("the operator's account is at fault", () => {
  const creditsFor = (bound: string) => `This request requires more credits, or fewer ${bound}.`;
  test.each<[number, ReportedError, "key" | "empty" | "country" | undefined]>([
    [401, {}, "key"],
    [402, {}, "empty"],
    [402, { message: "Insufficient Balance", type: "unknown_error" }, "empty"],
    [402, { message: `${creditsFor("max_tokens")} You can only afford 0.` }, "empty"],
    [402, { message: "Insufficient credits. Add more using https://openrouter.ai" }, "empty"],
    [400, { code: "billing_hard_limit_reached" }, "empty"],
    [400, { code: "Arrearage", type: "Arrearage" }, "empty"],
    [400, { message: "Your credit balance is too low to access the API." }, "empty"],
    [429, { code: "insufficient_quota", type: "insufficient_quota" }, "empty"],
    [429, { code: "insufficient_quota", type: null }, "empty"],
    [429, { code: null, type: "insufficient_quota" }, "empty"],
    [429, { code: "billing_not_active" }, "empty"],
    [429, { type: "exceeded_current_quota_error" }, "empty"],
    [429, { code: "1113" }, "empty"],
    [429, { code: "1112" }, undefined],
    [403, { code: "unsupported_country_region_territory", type: "request_forbidden" }, "country"],
    [403, { message: "Country, region, or territory not supported" }, "country"],
    [403, { code: "AccountOverdueError" }, "empty"],
    [403, { code: 403, message: "Permission denied: the consumer is suspended" }, undefined],
    [403, { message: "The API key has been revoked." }, undefined],
    [403, { message: "Your organization is suspended" }, undefined],
    [403, { message: "Invalid API key" }, "key"],
    [403, { message: "Requests are blocked.", details: reason("API_KEY_SERVICE_BLOCKED") }, "key"],
    [403, { message: "Sorry, your account balance is insufficient" }, "empty"],
    [403, { message: "Your newly created team doesn't have any credits yet." }, "empty"],
  ])("%d %j: %s", (status, error, accountFault) => {
    expect(replyOf(status, { error })).toMatchObject({ fault: "account", accountFault });
  });
});

describe("a 403 without a known word is no proof against the account", () => {
  test.each<[ReportedError]>([
    [{ type: "permission_error" }],
    [{ type: "permission_error", message: "Your API key does not have permission to use it" }],
    [{ message: "Your API key does not have permission to use this resource" }],
    [{ message: "You have insufficient permissions for this operation." }],
    // Gemini's for a video that is not public: every client can name one.
    [{ code: 403, status: "PERMISSION_DENIED", message: "The caller does not have permission" }],
    [{}],
    [{ message: "Forbidden" }],
    [{ message: "Access denied", type: "invalid_request_error", code: "forbidden" }],
  ])("%j", (error) => {
    expect(faultOf(403, error)).toBe("forbidden");
  });

  test.each([
    "<html>Sorry, you have been blocked: your account</html>",
    "",
    "[]",
    '{"message":"Forbidden"}',
    '{"title":"Error 1020: Access denied","status":403}',
    '{"error":null}',
  ])("nor is one in another form, as of a firewall: %s", (text) => {
    expect(errorOfReply(403, undefined, text, noSecrets).fault).toBe("forbidden");
  });
});

describe("the operator has to do something at the provider", () => {
  const verify = "Your organization must be verified to";
  test.each<[number, ReportedError]>([
    [
      400,
      {
        message: `${verify} stream this model. Please go to: https://platform.openai.com`,
        code: "unsupported_value",
      },
    ],
    [403, { message: `${verify} use the model \`gpt-image-1\`.` }],
    [404, { message: `${verify} use the model \`o3\`.`, code: "model_not_found" }],
    [403, { message: `${verify} generate reasoning summaries.` }],
    [
      400,
      {
        message: "Organization has been restricted. Please reach out to support.",
        code: "organization_restricted",
        type: "invalid_request_error",
      },
    ],
    [403, { code: "organization_restricted" }],
  ])("%d %j", (status, error) => {
    const text = JSON.stringify({ error });
    const found = errorOfReply(status, undefined, text, noSecrets);
    expect(found).toMatchObject({ fault: "operator", clientError: undefined });
  });

  test("but not if a client's text says so", () => {
    expect(faultOf(400, { message: `'${verify}' is not a role` })).toBe("caller");
  });
});

describe("a quota of one model", () => {
  test.each<[number, ReportedError]>([
    [403, { code: "AllocationQuota.FreeTierOnly", type: "AllocationQuota.FreeTierOnly" }],
    [429, { code: "SetLimitExceeded", type: "TooManyRequests" }],
  ])("%d %j", (status, error) => {
    expect(faultOf(status, error)).toBe("modelQuota");
  });
});

describe("the size or the bound of one request", () => {
  const afford =
    "This request requires more credits, or fewer max_tokens. You requested up to 32000 tokens, but can only afford 2000. To increase, visit https://openrouter.ai/settings/credits";
  test.each<[number, ReportedError, string]>([
    [402, { message: afford, code: 402 }, "isolated"],
    [402, { message: "Prompt tokens limit exceeded: 9000 > 1500." }, "isolated"],
    [408, { message: "Request timed out while reading the body" }, "isolated"],
    [413, { message: "too large" }, "tooLarge"],
    [414, {}, "tooLarge"],
    [431, {}, "tooLarge"],
    [429, { message: "Rate limit reached for gpt-5" }, "rateLimited"],
  ])("%d %j", (status, error, fault) => {
    expect(faultOf(status, error)).toBe(fault);
  });

  test("above the tokens of a minute is a rate limit for it alone, without the operator's organization", () => {
    const message =
      "Request too large for gpt-5 in organization org-Ab12Cd34Ef56 on tokens per min (TPM): Limit 30000, Requested 40000.";
    const text = JSON.stringify({
      error: { message, type: "tokens", code: "rate_limit_exceeded" },
    });
    for (const status of [429, 413])
      expect(errorOfReply(status, "7", text, noSecrets)).toMatchObject({
        fault: "tooLarge",
        clientError: { message: message.replace("org-Ab12Cd34Ef56", "***"), isRateLimit: true },
      });
  });
});

const emptyAccounts: readonly ReportedError[] = [
  { message: "Insufficient Balance", type: "unknown_error", code: "invalid_request_error" },
  { message: "insufficient balance." },
  { message: "Insufficient credits", code: 402 },
  { message: " INSUFFICIENT FUNDS! " },
  { message: "insufficient_quota" },
  { message: "Sorry, your account balance is insufficient" },
  { message: "Billing hard limit has been reached." },
  { code: "insufficient_quota" },
  { type: "billing_not_active" },
];

describe.each(emptyAccounts)("the account is empty, whatever the status: %j", (error) => {
  test.each([400, 402, 403, 404, 408, 409, 413, 422, 429, 500, 503])("%d", (status) => {
    const found = replyOf(status, { error });
    expect(found).toMatchObject({
      fault: "account",
      accountFault: "empty",
      clientError: undefined,
    });
  });
});

test.each([
  { error: "Insufficient Balance" },
  { message: "Insufficient Balance" },
  { detail: "Insufficient Balance" },
  [{ error: { message: "Insufficient Balance" } }],
])("finds an empty account in each known form of an error: %j", (body) => {
  expect(replyOf(400, body).fault).toBe("account");
});

test("an empty account counts before a time to retry after", () => {
  const text = JSON.stringify({ error: { message: "Insufficient Balance" } });
  expect(errorOfReply(402, "7", text, noSecrets).fault).toBe("account");
});

test("a failed dependency never counts as an empty account: the caller's own server can write its message", () => {
  expect(faultOf(424, { message: "Insufficient Balance" })).toBe("isolated");
});

test("a sentence about a quota does not change what a 503 means", () => {
  expect(faultOf(503, { message: "Allocated quota exceeded" })).toBe("provider");
});

describe("xAI names the account only in its message", () => {
  const wrongKey =
    "Incorrect API key provided: xa***yz. You can obtain an API key from https://console.x.ai.";
  const isSpent =
    "Your team 16f2151a-40f4 has either used all available credits or reached its monthly spending limit. To continue making API requests, please purchase more credits or raise your spending limit.";
  const saying = (error: string) => ({ code: "Some words", error });

  test.each([
    [400, wrongKey, "key"],
    [429, isSpent, "empty"],
    [403, isSpent, "empty"],
  ] as const)("%d %s", (status, words, accountFault) => {
    expect(replyOf(status, saying(words))).toMatchObject({
      fault: "account",
      accountFault,
      clientError: undefined,
    });
  });

  test.each([
    [400, `'${wrongKey}' is not a model`, "caller"],
    [400, `${wrongKey} is not a model`, "caller"],
    [400, "Incorrect API key provided: xa***yz", "caller"],
    [429, `'${isSpent}'`, "rateLimited"],
  ] as const)("but not in a client's: %d %s", (status, words, fault) => {
    expect(replyOf(status, saying(words)).fault).toBe(fault);
  });
});

/** https://docs.z.ai/api-reference/api-code */
describe("Zhipu names the account only by a number", () => {
  test.each([
    [429, "1113", "account"],
    [429, 1112, "account"],
    // It may be about the user whom the caller named.
    [429, "1121", "rateLimited"],
    [429, "1302", "rateLimited"],
    [400, "1113", "caller"],
  ] as const)("%d with the code %j", (status, code, fault) => {
    expect(faultOf(status, { code, message: "Please recharge." })).toBe(fault);
  });
});

/** https://www.alibabacloud.com/help/en/model-studio/error-code#token-limit */
describe("Alibaba uses the code of an empty account for the rate limit of a model", () => {
  const body = (message: string, more: object = {}) =>
    JSON.stringify({ error: { message, type: quota, param: null, code: quota }, ...more });
  const quota = "insufficient_quota";
  const plain = "You exceeded your current quota, please check your plan and billing details.";

  test.each([
    body(`${plain} For details, see: https://help.aliyun.com/en/model-studio/error-code`),
    body(`${plain} See: https://www.alibabacloud.com/help/en/model-studio/error-code`),
    body("You exceeded your current quota: the tokens per minute (TPM) limit was triggered."),
    body("Allocated quota exceeded, please increase your quota limit."),
    body(plain, { request_id: "r-1" }),
  ])("%s", (text) => {
    expect(errorOfReply(429, undefined, text, noSecrets).fault).toBe("rateLimited");
  });

  test.each([
    body(plain),
    body(`${plain} For more information, read https://platform.openai.com/docs/guides/error-codes`),
    body("Your allocated quota exceeded", { request_id: "r-1" }),
    body("no", { request_id: "r-1" }),
    JSON.stringify({ message: plain, type: quota, code: quota, request_id: "r-1" }),
  ])("other providers mean an empty account: %s", (text) => {
    expect(errorOfReply(429, undefined, text, noSecrets).fault).toBe("account");
  });
});

/** Google's ErrorInfo: https://ai.google.dev/gemini-api/docs/troubleshooting */
function reason(word: string): readonly object[] {
  return [
    { "@type": "type.googleapis.com/google.rpc.Help", links: [] },
    { "@type": "type.googleapis.com/google.rpc.ErrorInfo", reason: word, domain: "googleapis.com" },
    { "@type": "type.googleapis.com/google.rpc.LocalizedMessage", message: "x" },
  ];
}

describe("Google says the same in its own words", () => {
  const invalid = { code: 400, message: "API key not valid.", status: "INVALID_ARGUMENT" };
  test.each<[number, ReportedError]>([
    [400, { ...invalid, details: reason("API_KEY_INVALID") }],
    [403, { message: "Requests are blocked.", details: reason("API_KEY_SERVICE_BLOCKED") }],
    [403, { message: "It has not been used before.", details: reason("SERVICE_DISABLED") }],
    [403, { message: "Enable it.", details: reason("BILLING_DISABLED") }],
    [403, { message: "No.", details: reason("CONSUMER_SUSPENDED") }],
    [403, { message: "Method doesn't allow unregistered callers (callers without identity)." }],
    [429, { message: "Your prepayment credits are depleted. Please go to AI Studio." }],
    [400, { message: "User location is not supported for the API use." }],
    [400, { message: "Gemini API free tier is not available in your country." }],
  ])("%d %j", (status, error) => {
    expect(faultOf(status, error)).toBe("account");
    const inList = replyOf(status, [{ error }]);
    expect(inList.fault).toBe("account");
  });

  test.each<[number, unknown, string]>([
    [400, reason("INVALID_ARGUMENT"), "caller"],
    [400, reason("NO_API_KEY_INVALID"), "caller"],
    [400, "API_KEY_INVALID", "caller"],
    [400, { reason: "API_KEY_INVALID" }, "caller"],
    [400, [null, "API_KEY_INVALID", { reason: ["API_KEY_INVALID"] }], "caller"],
    [403, reason("SECURITY_POLICY_VIOLATED"), "provider"],
    [429, reason("RATE_LIMIT_EXCEEDED"), "rateLimited"],
    [500, reason("API_KEY_INVALID"), "provider"],
  ])("but a %d with the details %j is not about it", (status, details, fault) => {
    expect(faultOf(status, { message: "no", details })).toBe(fault as "caller");
  });
});

describe("a provider that asks to be left alone is believed for a minute at most", () => {
  const delay = (retryDelay: unknown) => [
    { "@type": "type.googleapis.com/google.rpc.QuotaFailure", violations: [] },
    { "@type": "type.googleapis.com/google.rpc.RetryInfo", retryDelay },
  ];
  const waitMs = (header: string | undefined, details?: unknown) =>
    replyOf(429, { error: { details } }, header).retryAfterMs;

  test.each([
    ["7", 7000],
    ["0", 1000],
    ["86400", 60_000],
    ["banana", undefined],
    ["1.5", undefined],
  ])("in the header: %s", (header, expected) => {
    expect(waitMs(header)).toBe(expected);
  });

  test.each([
    ["34.074824224s", 35_000],
    ["34s", 34_000],
    ["34.000s", 34_000],
    ["0s", 1000],
    ["0.3s", 1000],
    ["86400s", 60_000],
    ["-5s", undefined],
    ["1m", undefined],
    ["s", undefined],
    [5, undefined],
    [null, undefined],
  ])("in Google's details: %j", (given, expected) => {
    expect(waitMs(undefined, delay(given))).toBe(expected);
  });

  test("the header counts before the details, where it can be read", () => {
    expect(waitMs("7", delay("30s"))).toBe(7000);
    expect(waitMs("banana", delay("30s"))).toBe(30_000);
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
    expect(faultOf(429, { message, type: "tokens", code: "rate_limit_exceeded" })).toBe(
      "rateLimited",
    );
    expect(faultOf(403, { message, type: "some_error", code: null })).toBe("isolated");
  });
});

test.each([
  "'Insufficient Balance'",
  "Insufficient Balance is not a valid role",
  "The parameter is not known: Insufficient Balance",
])("the words of an empty account within a longer message do not count: %s", (message) => {
  expect(faultOf(400, { message })).toBe("caller");
  expect(faultOf(422, { message })).toBe("caller");
  expect(faultOf(429, { message })).toBe("rateLimited");
  expect(faultOf(500, { message })).toBe("provider");
});

describe("a 403 that names the request is an isolated failure", () => {
  test.each<[ReportedError]>([
    [{ type: "content_filter" }],
    [{ code: "moderation_blocked", message: "no" }],
    [{ message: "Content violates usage guidelines. Team: t, API key ID: k, failed check: x" }],
    [{ code: 403, message: 'some/model requires moderation. Your input was flagged for "x".' }],
    [{ message: "Your input was refused. No credits were charged to your account." }],
    [{ message: "The keyword is not allowed" }],
    [{ message: "Input token count + max_tokens must be less than the context length." }],
    [{ message: "You do not have permission to access the File x1 or it may not exist." }],
  ])("%j", (error) => {
    expect(faultOf(403, error)).toBe("isolated");
  });

  test("also as a text without an object", () => {
    const error = "Content violates usage guidelines. Failed check: SAFETY_CHECK_TYPE_BIO";
    const text = JSON.stringify({ code: "The caller does not have permission", error });
    expect(errorOfReply(403, undefined, text, noSecrets).fault).toBe("isolated");
  });

  test.each<[ReportedError]>([
    [{ message: "Project p does not have access to model m", code: "model_not_found" }],
    [{ message: "Model access denied.", code: "Model.AccessDenied", type: "Model.AccessDenied" }],
    [{ message: "Request not allowed", type: "forbidden" }],
    [{ message: "Your request was blocked." }],
  ])("but not if it names only the model, or only requests: %j", (error) => {
    expect(faultOf(403, error)).toBe("provider");
  });
});

describe("the error that a client gets for its own fault", () => {
  const secrets = { values: ["key-of-the-operator"], hosts: ["inside.example"] };
  const shown = (body: unknown) =>
    errorOfReply(422, undefined, JSON.stringify(body), secrets).clientError?.message;

  /** As FastAPI writes it, and Mistral: https://fastapi.tiangolo.com/tutorial/handling-errors/ */
  const extra = {
    type: "extra_forbidden",
    loc: ["body", "messages", 6, "assistant", "name"],
    msg: "Extra inputs are not permitted",
    input: null,
  };
  const extraInWords = "body.messages.6.assistant.name: Extra inputs are not permitted";

  test.each<[unknown, string]>([
    [{ error: { message: "no" }, detail: "other" }, "no"],
    [{ message: "no", detail: "other" }, "no"],
    [{ detail: "too long" }, "too long"],
    [{ detail: [extra, { ...extra, loc: ["body"] }] }, extraInWords],
    [{ object: "error", message: { detail: [extra] }, param: null }, extraInWords],
    [{ object: "Error", message: [extra], detail: [extra] }, extraInWords],
    [{ message: "", detail: [extra] }, extraInWords],
    [{ error: { message: null, detail: "too long" } }, "too long"],
    [{ error: { type: "x" }, detail: "too long" }, "too long"],
    [{ error: { message: "" }, detail: "too long" }, "too long"],
    [{ error: true, detail: "too long" }, "too long"],
    [{ error: { message: { detail: [extra] } } }, extraInWords],
    [{ detail: [{ msg: "no" }] }, "no"],
    [{ detail: [{ loc: [], msg: "no" }] }, "no"],
    [{ detail: [{ loc: ["a", null, { b: 1 }, "c"], msg: "no" }] }, "a.c: no"],
    [{ detail: ["no", "other"] }, "no"],
    [{ detail: [] }, "invalid request"],
    [{ detail: [null] }, "invalid request"],
    [{ detail: { loc: ["body"] } }, "invalid request"],
    [{ detail: [{ loc: ["body"], msg: {} }] }, "invalid request"],
    [{ detail: { error: { message: "no" } } }, "no"],
    [{ Message: "no" }, "no"],
    [{ __type: "ValidationException", Message: null, message: "no" }, "no"],
    [{ error_code: 336003, error_msg: "no" }, "no"],
    [{ success: false, code: 400, msg: "no" }, "no"],
    [{ errorMessage: "no", errorCode: "x" }, "no"],
    [{ error_message: "no" }, "no"],
    [{ errmsg: "no", errcode: 4 }, "no"],
    [{ error: { msg: "no", code: "x" } }, "no"],
    [{ error: { Message: "no" } }, "no"],
    [{ error: { errors: [{ message: "no" }] } }, "no"],
    [{ success: false, errors: [{ code: 5006, message: "no" }], result: {} }, "no"],
    [{ errors: ["no"] }, "no"],
    [{ error: ["no", "other"], error_type: "validation" }, "no"],
    [{ error: [{ message: "no" }] }, "no"],
    [{ error: "invalid_request", error_description: "no" }, "invalid_request: no"],
    [{ status: 400, error: "Bad Request", message: "no", path: "/v1" }, "Bad Request: no"],
    [{ type: "about:blank", title: "Bad Request", status: 400, detail: "no" }, "no"],
    [{ title: "no", status: 400 }, "no"],
    [{ base_resp: { status_code: 2013, status_msg: "no" } }, "no"],
    [{ fault: { faultstring: "no", detail: { errorcode: "x" } } }, "no"],
    [{ error: { message: '{"error":{"message":"no"}}' } }, "no"],
    [{ error: '{"message":"no"}' }, "no"],
    [{ error: { message: "{no JSON}" } }, "{no JSON}"],
    [
      { error: { message: "Provider returned error", metadata: { raw: "no" } } },
      "Provider returned error: no",
    ],
    [
      { error: { message: "Provider returned error", metadata: { raw: '{"detail":"no"}' } } },
      "Provider returned error: no",
    ],
    [{ error: { message: "no", metadata: { raw: '{"detail":"other"}' } } }, "no"],
    [
      { error: { message: "Provider returned error", metadata: { raw: "<html>x</html>" } } },
      "Provider returned error",
    ],
    [
      {
        error: {
          message: "Request contains an invalid argument.",
          details: [{ fieldViolations: [{ field: "x", description: "no" }] }],
        },
      },
      "Request contains an invalid argument.: no",
    ],
    [{ error: {}, msg: ["no"] }, "no"],
  ])("%j", (body, message) => {
    expect(shown(body)).toBe(message);
  });

  test("never holds a secret, also in the details", () => {
    const loc = ["body", "key-of-the-operator"];
    expect(shown({ detail: [{ loc, msg: "at inside.example" }] })).toBe("body.***: at ***");
    expect(shown({ detail: "from key-of-the-operator" })).toBe("from ***");
  });

  test("holds at most 512 characters of the details", () => {
    expect(shown({ detail: "a".repeat(600) })).toBe("a".repeat(512));
  });

  test.each([
    { detail: "Your credit balance is too low" },
    {
      detail: [{ loc: ["Your credit balance is too low"], msg: "Extra inputs are not permitted" }],
    },
    { message: [{ msg: "Your credit balance is too low" }] },
    { msg: "Your credit balance is too low" },
    { error: { message: "Provider returned error", metadata: { raw: "Insufficient Balance" } } },
    { error: [{ message: "Your credit balance is too low" }] },
  ])("puts nothing in cooldown, because it may have names of the client: %j", (body) => {
    expect(replyOf(400, body).fault).toBe("caller");
  });
});

test("the message for the operator has no secret, also if it is a code", () => {
  const secrets = { values: ["key-of-the-operator"], hosts: [] };
  const wordsOf = (error: ReportedError) =>
    errorOfReply(403, undefined, JSON.stringify({ error }), secrets).providerMessage;
  expect(wordsOf({ message: "no key-of-the-operator" })).toBe("no ***");
  expect(wordsOf({ code: "key-of-the-operator" })).toBe("***");
  expect(wordsOf({ code: 403 })).toBeUndefined();
});

describe("the provider's host is masked", () => {
  const secrets = { values: [], hosts: ["vllm-7.internal.corp:8000", "vllm-7.internal.corp"] };
  const shownOf = (message: string) =>
    errorOfReply(400, undefined, JSON.stringify({ error: { message } }), secrets).clientError
      ?.message;

  test.each([
    ["no way to vllm-7.internal.corp", "no way to ***"],
    ["no way to VLLM-7.Internal.Corp:8000/v1", "no way to ***/v1"],
    ["VLLM-7.INTERNAL.CORP, vllm-7.INTERNAL.corp", "***, ***"],
    ["vllm-7xinternal.corp", "vllm-7xinternal.corp"],
  ])("in any letters: %s", (message, shown) => expect(shownOf(message)).toBe(shown));
});

describe("a code and a param are cut", () => {
  const secret = "HdrSecretVALUE-987654";
  const shown = (error: object) =>
    errorOfReply(400, undefined, JSON.stringify({ error }), { values: [secret], hosts: [] })
      .clientError?.extra;

  test.each([50, 60, 63])("only after masking: no half of a secret at %d", (before) => {
    const word = `${"a".repeat(before)}-${secret}`;
    const { code, param } = shown({ message: "m", code: word, param: word }) ?? {};
    for (const told of [code, param]) {
      expect(told).toStartWith("a".repeat(before));
      expect(told).not.toContain("Hdr");
      expect(String(told).length).toBeLessThanOrEqual(64);
    }
  });

  test("at 64 characters without a secret", () => {
    expect(shown({ message: "m", code: "c".repeat(100), param: "p".repeat(64) })).toEqual({
      code: "c".repeat(64),
      param: "p".repeat(64),
    });
  });
});

/** https://platform.claude.com/docs/en/api/errors */
describe("an error of the Messages API", () => {
  const limits = "API usage limits. You will regain access on 2026-04-01 at 00:00 UTC.";
  const invalid = "invalid_request_error";

  test.each([
    [401, "authentication_error", "invalid x-api-key", "account"],
    [402, "billing_error", "Billing error", "account"],
    [403, "permission_error", "Your API key does not have permission to use it", "forbidden"],
    [400, invalid, "Your credit balance is too low to access the Anthropic API.", "account"],
    [400, invalid, `You have reached your specified ${limits}`, "account"],
    [400, invalid, `You have reached your specified workspace ${limits}`, "account"],
    [400, invalid, "This organization has been disabled.", "account"],
    [400, invalid, "max_tokens: 999999 > 64000, which is the maximum allowed", "caller"],
    [400, invalid, "prompt is too long: 210000 tokens > 200000 maximum", "caller"],
    [400, invalid, "temperature: range: 0..1", "caller"],
    [400, invalid, "messages.0.content: 'Your credit balance is too low' is not valid", "caller"],
    [400, invalid, "tools.0.name: 'This organization has been disabled' is no name", "caller"],
    [400, invalid, "You have reached your specified limit of 20 strict tools", "caller"],
    [409, "conflict_error", "The request conflicts with the current state", "caller"],
    [413, "request_too_large", "Request exceeds the maximum size", "tooLarge"],
    [404, "not_found_error", "model: claude-none", "notFound"],
    [
      429,
      "rate_limit_error",
      "This request would exceed your account's rate limit.",
      "rateLimited",
    ],
    [500, "api_error", "Internal server error", "provider"],
    [504, "timeout_error", "The request timed out while processing", "provider"],
    [529, "overloaded_error", "Overloaded", "provider"],
  ] as const)("%d %s: %s has the fault %s", (status, type, message, fault) => {
    const text = JSON.stringify({ type: "error", error: { type, message }, request_id: "req_011" });
    const found = errorOfReply(status, "17", text, noSecrets);
    expect(found.fault).toBe(fault);
    if (fault === "caller" || fault === "tooLarge")
      expect(found.clientError?.message).toBe(message);
    else if (fault !== "notFound") expect(found.clientError).toBeUndefined();
    if (fault === "rateLimited") expect(found.retryAfterMs).toBe(17_000);
  });
});
