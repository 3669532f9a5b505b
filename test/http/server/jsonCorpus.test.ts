import { describe, expect, test } from "bun:test";
import { usual } from "../../support/provider/chatAnswers.ts";
import { openBefore } from "../../support/gateway/gatewayUnderTest.ts";
import type { JsonCase } from "../../support/json/jsonCase.ts";
import { decidedNames, suiteCases, type SuiteKind } from "../../support/json/jsonTestSuite.ts";
import { encodingCases } from "../../support/json/ownEncodings.ts";
import { numberCases } from "../../support/json/ownNumbers.ts";
import { stringCases } from "../../support/json/ownStrings.ts";
import { structureCases } from "../../support/json/ownStructures.ts";
import type { TestKey } from "../../support/gateway/testApp.ts";
import { sample } from "../../support/sample.ts";

/** Each text of two corpora is sent as a field's value, first and last in the body, and as a whole body. */
const at = openBefore(["local"], ({ local }) => ({
  providers: { local },
  models: [{ id: "small", routes: [{ provider: "local", model: "vendor/small-2" }] }],
}));

const timeoutMs = 60_000;
const suite: readonly (readonly [SuiteKind, count: number, what: string])[] = [
  ["y", 95, "what JSON is"],
  ["n", 188, "what JSON is not"],
  ["i", 35, "what is the implementation's to decide"],
];
const own = {
  numbers: numberCases(),
  strings: stringCases(),
  encodings: encodingCases(),
  structures: structureCases(),
};

const others = '"model" : "small","messages":[{"role":"user","content":"\\u0041 \\/"}]';
const frames = [
  ["first", '{"passed":', `,${others}}`],
  ["last", `{${others},"passed":`, "}"],
] as const;

/** The status of a body, and the message if it is an error's. */
async function send(key: TestKey, body: Uint8Array<ArrayBuffer>): Promise<string> {
  const response = await fetch(`${at.gateway.url}/v1/chat/completions`, {
    method: "POST",
    headers: { authorization: `Bearer ${key.key}`, "content-type": "application/json" },
    body,
  });
  const answer = (await response.json()) as { error?: { message: string; type: string } };
  if (!answer.error) return String(response.status);
  return `${response.status} ${answer.error.type}: ${answer.error.message}`;
}

const refused = (message: string): string => `400 invalid_request_error: ${message}`;

/** The results of a text as a field's value that differ from its verdict. */
async function asValue(key: TestKey, one: JsonCase): Promise<string[]> {
  const wrong: string[] = [];
  for (const [place, before, after] of frames) {
    at.providers.local.forget();
    at.providers.local.answer = usual;
    const body = Buffer.concat([Buffer.from(before), one.bytes, Buffer.from(after)]);
    const outcome = await send(key, body);
    const sent = at.providers.local.requests.map((request) => request.body);
    const isAccepted = one.verdict === "accepted";
    if (outcome !== (isAccepted ? "200" : refused(one.verdict)))
      wrong.push(`${one.name} (${place}): ${outcome}`);
    const expected = body.toString().replace('"model" : "small"', '"model" : "vendor/small-2"');
    if (!Bun.deepEquals(sent, isAccepted ? [expected] : []))
      wrong.push(`${one.name} (${place}): the provider got ${sent.join().slice(0, 200)}`);
  }
  return wrong;
}

/** The same for the text as the whole body of a request. */
async function asBody(key: TestKey, one: JsonCase): Promise<string[]> {
  const outcome = await send(key, Buffer.from(one.bytes));
  return outcome === refused(bodyRefusal(one)) ? [] : [`${one.name} (whole): ${outcome}`];
}

function bodyRefusal({ bytes, verdict }: JsonCase): string {
  const isJson = !["body is not valid JSON", "request body is not valid UTF-8"].includes(verdict);
  if (!isJson) return verdict;
  if (!bytes.toString().trimStart().startsWith("{")) return "body must be a JSON object";
  return verdict === "accepted" ? "model is required" : verdict;
}

/** All differences from the verdicts of the cases; in CI of some. */
async function differences(cases: readonly JsonCase[]): Promise<string[]> {
  const key = await at.gateway.key();
  const wrong: string[] = [];
  for (const one of sample(cases, 40, ({ name }) => name)) {
    wrong.push(...(await asValue(key, one)));
    wrong.push(...(await asBody(key, one)));
  }
  return wrong;
}

const guarantee =
  "reaches the provider byte for byte where it is accepted, and is the contract's 400 where not";

describe("JSONTestSuite", () => {
  test.each(suite)(
    `each %s_ (%i, %s) ${guarantee}`,
    async (kind, count) => {
      const cases = suiteCases(kind);
      expect(cases).toHaveLength(count);
      expect(await differences(cases)).toEqual([]);
    },
    timeoutMs,
  );

  test("is accepted and refused by its verdicts, except for duplicate keys", () => {
    expect(names("y", (verdict) => verdict !== "accepted")).toEqual([
      "y_object_duplicated_key",
      "y_object_duplicated_key_and_value",
    ]);
    expect(names("n", (verdict) => verdict === "accepted")).toEqual([]);
  });

  test("leaves no text undecided", () => {
    expect(names("i", () => true)).toEqual(decidedNames.toSorted());
  });
});

function names(kind: SuiteKind, fits: (verdict: string) => boolean): string[] {
  const found = suiteCases(kind).filter(({ verdict }) => fits(verdict));
  return found.map(({ name }) => name).toSorted();
}

describe("our own corpus", () => {
  test("has more than two hundred cases with unique names", () => {
    const all = Object.values(own).flatMap((cases) => cases.map(({ name }) => name));
    expect(all.length).toBeGreaterThan(200);
    expect(new Set(all).size).toBe(all.length);
  });

  test.each(Object.entries(own))(
    `each of its %s ${guarantee}`,
    async (_, cases) => {
      expect(await differences(cases)).toEqual([]);
    },
    timeoutMs,
  );
});
