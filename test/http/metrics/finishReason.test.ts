import { expect, test } from "bun:test";
import {
  answered,
  choice,
  helloEvent,
  roleEvent,
  usual,
} from "../../support/provider/chatAnswers.ts";
import { chat } from "../../support/gateway/chatCalls.ts";
import { openBefore } from "../../support/gateway/gatewayUnderTest.ts";
import { geminiEvent, saying, usualGemini } from "../../support/provider/geminiAnswers.ts";
import { growth } from "../../support/gateway/scrape.ts";
import { json, stream } from "../../support/provider/scriptedProvider.ts";
import { chatEvent } from "../../support/provider/upstreamText.ts";

const at = openBefore(["one", "google"], ({ one, google }) => ({
  providers: { one, google: { base_url: google, kind: "gemini" } },
  models: [
    { id: "small", routes: [{ provider: "one" }] },
    { id: "flash", routes: [{ provider: "google", responses: false }] },
  ],
  sections: { metrics: { listen: "127.0.0.1:0" } },
}));

const unknownCounted = async (body: object, model = "small"): Promise<number | undefined> => {
  const { value } = await growth(at.gateway.metricsUrl, async () => {
    expect((await chat(at.gateway, await at.gateway.key(), { model, ...body })).status).toBe(200);
  });
  return value("tollgate_unknown_finish_reasons_total", { model });
};

test("an unknown finish reason is counted: in JSON", async () => {
  at.providers.one.answer = answered({ choices: [choice({}, { finish_reason: "enough" })] });
  expect(await unknownCounted({})).toBe(1);
});

test("an unknown finish reason is counted: in a stream", async () => {
  const end = chatEvent({}, "enough");
  at.providers.one.answer = stream(roleEvent, helloEvent, end, "data: [DONE]\n\n");
  expect(await unknownCounted({ stream: true })).toBe(1);
});

test.each([
  ["in JSON", json(saying([{ text: "Hello" }], "ENOUGH")), {}, 1],
  ["in a stream", stream(geminiEvent(saying([{ text: "Hello" }], "ENOUGH"))), { stream: true }, 1],
  ["a known one", usualGemini, {}, 0],
])("unknown reasons of Gemini are counted: %s", async (_, answer, body, count) => {
  at.providers.google.answer = answer;
  expect(await unknownCounted(body, "flash")).toBe(count);
});

test.each([
  ["a known one", usual],
  [
    "a known reason of one provider",
    answered({ choices: [choice({}, { finish_reason: "sensitive" })] }),
  ],
  ["null", answered({ choices: [choice({}, { finish_reason: null })] })],
  ["an empty text", answered({ choices: [choice({}, { finish_reason: "" })] })],
])("%s is not counted", async (_, answer) => {
  at.providers.one.answer = answer;
  expect(await unknownCounted({})).toBe(0);
});
