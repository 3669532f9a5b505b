import { afterAll, expect, test } from "bun:test";
import type { ExpectedError } from "../../support/gateway/chatCalls.ts";
import {
  chatForms,
  everyForm,
  jsonForms,
  messagesForms,
  responsesForms,
  translatedForms,
  validAnswer,
} from "../../support/faults/faultAnswers.ts";
import { openFaultSetup } from "../../support/faults/faultSetup.ts";
import {
  chosenForms,
  expectEnd,
  expectRefused,
  expectUnavailable,
  expectUsual,
  testFailover,
  testRefused,
  testRow,
  testServed,
  usualCharge,
} from "../../support/faults/faultTests.ts";
import { json, refusal, startProvider, text } from "../../support/provider/scriptedProvider.ts";

/** Rows 18 to 36 without the gigantic body of row 32: a provider that answers with a status other than 200. */
const setup = openFaultSetup();
const words = "secret words of the provider";
function invalid(message: string): ExpectedError {
  return [400, "invalid_request_error", message];
}

const callersFaults = [
  { row: 18, status: 400 },
  { row: 26, status: 409 },
  { row: 28, status: 422 },
] as const;
const providersFaults = [
  { row: 26, status: 408 },
  { row: 26, status: 425 },
  { row: 31, status: 500 },
  { row: 31, status: 502 },
  { row: 31, status: 503 },
  { row: 31, status: 504 },
  { row: 31, status: 529 },
] as const;
const detailed = { code: "context_length_exceeded", param: "messages" };

testRefused(setup, [
  ...callersFaults.map(({ row, status }) => ({
    row,
    name: `${status} with an OpenAI error body`,
    forms: everyForm,
    answer: json(
      { error: { message: "the prompt is too long", type: "some_error", ...detailed } },
      { status },
    ),
    outcome: `status ${status}`,
    refusal: invalid("the prompt is too long"),
    extra: detailed,
  })),
  {
    row: 18,
    name: "400 with a message of 5,000 characters",
    forms: everyForm,
    answer: json({ error: { message: "a".repeat(5000) } }, { status: 400 }),
    outcome: "status 400",
    refusal: invalid("a".repeat(512)),
  },
  ...callersFaults.map(({ status }) => ({
    row: 20,
    name: `${status} with an HTML body`,
    forms: everyForm,
    answer: text(`<html>${words}</html>`, { status, type: "text/html" }),
    outcome: `status ${status}`,
    refusal: invalid("invalid request"),
  })),
  ...[undefined, "not_found", "response_not_found"].map((code) => ({
    row: 25,
    name: `404 with the code ${code}`,
    forms: responsesForms,
    answer: json({ error: { message: words, code } }, { status: 404 }),
    outcome: "status 404",
    refusal: [404, "invalid_request_error", "resource not found"] as const,
  })),
]);

const canaries = {
  key: "sk-upstream-canary-0123456789",
  organisation: "org-CanaryCanary123",
  host: "provider-canary.example",
  address: "203.0.113.77",
};
const credentialNames: ReadonlySet<string> = new Set(["authorization", "x-api-key"]);
const leaky = startProvider((peer, request) => {
  const { key, organisation, host, address } = canaries;
  const credential = request.headers.find(([name]) => credentialNames.has(name))?.[1];
  const message = `no ${key} of ${organisation} at https://${host}/v1?x=1, ${address} or 127.0.0.1:${leaky.port}: ${credential}`;
  const error = { message, code: key, param: key };
  return json({ error }, { status: 400 })(peer, request);
});
const talkative = setup.model(19, {
  answer: validAnswer,
  settings: { base_url: `http://127.0.0.1:${leaky.port}/v1`, api_key: canaries.key },
  hasNext: true,
});
testRow(19, "400 whose message has our key, organisation, host and address: redacted", async () => {
  for (const form of everyForm) {
    const reply = await setup.ask(form, talkative);
    expectRefused(reply, invalid("no *** of *** at *** *** or ***: ***"), {
      code: "***",
      param: "***",
    });
    expectEnd(await setup.record(reply, 0n), { status: "failed", charge: 0n });
    expect(setup.calls(talkative)[1]).toBe(0);
  }
  const log = JSON.stringify(setup.gateway.log);
  for (const canary of Object.values(canaries)) expect(log).not.toContain(canary);
});

/** The host to which a provider wants to send the gateway. */
const elsewhere = startProvider(validAnswer);
afterAll(() => {
  leaky.stop();
  elsewhere.stop();
});
const target = `http://localhost:${elsewhere.port}/v1/chat/completions`;

testFailover(setup, [
  ...providersFaults.map(({ row, status }) => ({
    row,
    name: `${status}`,
    forms: everyForm,
    answer: refusal(status, words),
    outcome: `status ${status}`,
  })),
  {
    row: 24,
    name: "404",
    forms: [...chatForms, ...messagesForms, ...translatedForms, "embeddings"],
    answer: refusal(404, words),
    outcome: "status 404",
  },
  {
    row: 25,
    name: "404 whose code says that the model is unknown",
    forms: responsesForms,
    answer: json({ error: { message: words, code: "model_not_found" } }, { status: 404 }),
    outcome: "status 404",
  },
  {
    row: 29,
    name: "429 with retry-after 7",
    forms: everyForm,
    answer: refusal(429, words, { "retry-after": "7" }),
    outcome: "status 429",
    retryAfter: 7,
  },
  ...["86400", "banana", "-1", "Wed, 21 Oct 2065 07:28:00 GMT", "1.5", ""].map((value) => ({
    row: 30,
    name: `429 with retry-after ${JSON.stringify(value)}`,
    forms: jsonForms,
    answer: refusal(429, words, { "retry-after": value }),
    outcome: "status 429",
    retryAfter: value === "86400" ? 60 : 1,
  })),
  ...[301, 302, 303, 307, 308].map((status) => ({
    row: 33,
    name: `${status} to another host`,
    forms: everyForm,
    answer: text("", { status, headers: { location: target } }),
    outcome: `status ${status}`,
  })),
  ...["http://169.254.169.254/latest/meta-data/", `http://127.0.0.1:${elsewhere.port}/`].map(
    (location) => ({
      row: 34,
      name: `307 to ${new URL(location).hostname}`,
      forms: everyForm,
      answer: text("", { status: 307, headers: { location } }),
      outcome: "status 307",
    }),
  ),
  ...[204, 205, 304].map((status) => ({
    row: 36,
    name: `${status}`,
    forms: everyForm,
    answer: text("", { status }),
    outcome: `status ${status}`,
  })),
]);

testServed(setup, [
  {
    row: 35,
    name: "100 and 103 before 200",
    forms: everyForm,
    answer: async (peer, request) => {
      await peer.send("HTTP/1.1 100 Continue\r\n\r\n");
      await peer.send("HTTP/1.1 103 Early Hints\r\nlink: </x>; rel=preload\r\n\r\n");
      await validAnswer(peer, request);
    },
    charge: usualCharge,
  },
]);

for (const form of chosenForms(everyForm)) {
  const error = { message: "the prompt is too long", type: "some_error", ...detailed };
  const answer = json({ error }, { status: 413 });
  const pair = setup.model(27, { answer, hasNext: true });
  const alone = setup.model(27, { answer });
  testRow(27, `413 (${form}): the next route answers; without one it is the caller's`, async () => {
    const reply = await setup.ask(form, pair);
    expectUsual(form, reply);
    expectEnd(await setup.record(reply, usualCharge), { status: "done", charge: usualCharge });
    const refused = await setup.ask(form, alone);
    expectRefused(refused, invalid(error.message), detailed);
    expectEnd(await setup.record(refused, 0n), { status: "failed", charge: 0n });
  });
}

const accountFaults = [
  { row: 21, status: 401, name: "the key is refused", error: {} },
  { row: 22, status: 402, name: "the account is empty", error: {} },
  { row: 23, status: 403, name: "the bill is overdue", error: { code: "AccountOverdueError" } },
] as const;
for (const { row, status, name, error } of accountFaults) {
  for (const form of chosenForms(everyForm)) {
    const settings = { api_key: "sk-of-the-operator" };
    const answer = json({ error: { message: words, ...error } }, { status });
    const alone = setup.model(row, { answer, settings });
    testRow(row, `${status}, ${name} (${form}): 502, never ${status}`, async () => {
      for (const outcomes of [[{ outcome: `status ${status}`, status }], []]) {
        const reply = await setup.ask(form, alone);
        expectUnavailable(reply, 300);
        const record = await setup.record(reply, 0n);
        expectEnd(record, { status: "failed", charge: 0n });
        // The provider has a cooldown at the second request.
        expect(record.attempts).toMatchObject(outcomes);
        expect(record.attempts).toHaveLength(outcomes.length);
      }
      expect(setup.calls(alone)[0]).toBe(1);
    });
    const pair = setup.model(row, { answer, settings, hasNext: true });
    testRow(row, `${status}, ${name} (${form}): the next route answers, loudly`, async () => {
      for (const attempts of [2, 1]) {
        const reply = await setup.ask(form, pair);
        expectUsual(form, reply);
        const record = await setup.record(reply, usualCharge);
        expectEnd(record, { status: "done", charge: usualCharge });
        expect(record.attempts).toHaveLength(attempts);
      }
      expect(setup.calls(pair)).toEqual([1, 2]);
      const alarms = setup.gateway.log.filter(
        ({ provider }) => provider === setup.providersOf(pair, form)[0],
      );
      expect(alarms).toMatchObject([{ level: "error", status }]);
    });
  }
}

test("row 24: a model that its provider does not know is logged", () => {
  const alarms = setup.gateway.log.filter(({ status }) => status === 404);
  const loud = alarms.filter(({ level }) => level === "error");
  expect(loud.length).toBeGreaterThanOrEqual(chatForms.length * 2);
  expect(loud[0]).toMatchObject({
    msg: "the provider answers 404: check its base_url and the model name of the route",
  });
});

test("rows 33 and 34: no target of a redirect received a request", () => {
  expect(elsewhere.requests).toEqual([]);
});

test("the log has no message of a provider", () => {
  expect(JSON.stringify(setup.gateway.log)).not.toContain(words);
});
