import { describe, expect, test } from "bun:test";
import {
  answered,
  doneEvent,
  helloEvent,
  stopEvent,
  usageOnly,
} from "../../support/provider/chatAnswers.ts";
import { chat } from "../../support/gateway/chatCalls.ts";
import { openOneModelBefore } from "../../support/gateway/gatewayUnderTest.ts";
import { ended, responsesUsage } from "../../support/provider/responsesAnswers.ts";
import { respond } from "../../support/gateway/responsesCalls.ts";
import { json, stream, type ProviderAnswer } from "../../support/provider/scriptedProvider.ts";

/** The model generates at most 1,000 tokens. */
const at = openOneModelBefore();

const figures = (completion_tokens: number) => ({ prompt_tokens: 20, completion_tokens });
const impossible =
  "the provider reported an impossible usage: the gateway does not charge these figures";
const fallen = "the provider reported less usage than earlier in the same answer";
const beyond = "the provider reported more tokens than the model can produce";

/** The log lines about usage while a request gets this answer. */
async function alarms(answer: ProviderAnswer, body: object = {}): Promise<readonly object[]> {
  const before = at.gateway.log.length;
  at.provider.answer = answer;
  const key = await at.gateway.key();
  const { status, id } = await chat(at.gateway, key, body);
  expect(status).toBe(200);
  await at.gateway.records(key, 1);
  const lines = at.gateway.log.slice(before).filter(({ msg }) => msg !== "request");
  for (const line of lines) expect(line).toMatchObject({ request_id: id, model: "small" });
  return lines.map(({ level, msg }) => ({ level, msg }));
}

describe("the log warns", () => {
  test.each([
    ["in JSON", answered({ usage: figures(1e9) }), {}],
    [
      "in a stream",
      stream(helloEvent, stopEvent, usageOnly(figures(1e9)), doneEvent),
      { stream: true },
    ],
    [
      "in a stream, beside a valid one",
      stream(
        helloEvent,
        stopEvent,
        ...[figures(1e9), figures(5), figures(4)].map(usageOnly),
        doneEvent,
      ),
      { stream: true },
    ],
    ["of a prompt", answered({ usage: { prompt_tokens: 1e9, completion_tokens: 1 } }), {}],
  ])("of an impossible usage: %s", async (_, answer, body) => {
    expect(await alarms(answer, body)).toEqual([{ level: "error", msg: impossible }]);
  });

  const larger = { prompt_tokens: 20, completion_tokens: 198, total_tokens: 623 };
  test.each([
    ["in JSON", answered({ usage: larger }), {}],
    ["in a stream", stream(helloEvent, stopEvent, usageOnly(larger), doneEvent), { stream: true }],
  ])("of a total above its parts: %s", async (_, answer, body) => {
    const msg =
      "the provider reported a total that is larger than the tokens of prompt and completion";
    expect(await alarms(answer, body)).toEqual([{ level: "warn", msg }]);
  });

  test("of an impossible usage in a response", async () => {
    at.provider.answer = json(
      ended("resp_1", { usage: { ...responsesUsage, output_tokens: 1e9 } }),
    );
    const before = at.gateway.log.length;
    expect((await respond(at.gateway, await at.gateway.key())).status).toBe(200);
    expect(at.gateway.log.slice(before)).toContainEqual(
      expect.objectContaining({ level: "error", msg: impossible }),
    );
  });

  test("of more tokens than the model can generate, which are charged", async () => {
    expect(await alarms(answered({ usage: figures(1001) }))).toEqual([
      { level: "warn", msg: beyond },
    ]);
  });

  test.each([
    ["of the completion", [figures(50), figures(5)]],
    ["of the prompt", [{ prompt_tokens: 30, completion_tokens: 5 }, figures(50)]],
    ["again and again, but once", [figures(50), figures(5), figures(4), figures(3)]],
    ["to zeros", [figures(50), { prompt_tokens: 0, completion_tokens: 0 }]],
  ])("of a usage that decreases: %s", async (_, reports) => {
    const events = [helloEvent, stopEvent, ...reports.map(usageOnly), doneEvent];
    expect(await alarms(stream(...events), { stream: true })).toEqual([
      { level: "warn", msg: fallen },
    ]);
  });

  test.each([
    ["that grows", [figures(0), figures(5), figures(5), figures(6)]],
    ["whose last figure is none", [figures(5), null]],
  ])("never of a usage %s", async (_, reports) => {
    const events = [helloEvent, stopEvent, ...reports.map(usageOnly), doneEvent];
    expect(await alarms(stream(...events), { stream: true })).toEqual([]);
  });

  test("never of more than the caller's bound, or of as much as all choices can have", async () => {
    expect(await alarms(answered({ usage: figures(1000) }), { max_tokens: 10 })).toEqual([]);
    expect(await alarms(answered({ usage: figures(2000) }), { n: 2 })).toEqual([]);
  });
});
