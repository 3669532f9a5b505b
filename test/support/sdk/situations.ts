import { describe, expect, test } from "bun:test";
import type { ProviderKind } from "../../../src/config/schema.ts";
import { formatRoubles } from "../../../src/lib/money.ts";
import { costOf } from "../gateway/gatewayConfig.ts";
import { isLong, sample } from "../sample.ts";
import type { Call, SdkClient, SdkResult, Way } from "./client.ts";
import { beginning, scriptOf, tieredModel } from "./provider.ts";
import { providerSecret, object, objectSchema, toolInput, toolOutput } from "./script.ts";
import { cost, openSdkSetup, expectedUsage, type SdkSetup, type WiredCall } from "./setup.ts";

const ways = ["in JSON", "as a stream"] as const;

/** Proves that SDKs get on with the gateway: in each situation of a client, whether it asks whole or as a stream. */
export function prove(clients: readonly SdkClient[], kind: ProviderKind = "openai"): void {
  describe(`in front of kind ${kind}`, () => {
    const setup = openSdkSetup(kind);
    describe.each(clients.map((client) => [client.name, client] as const))("%s", (_, client) => {
      const isOwnKind = (kind === "anthropic") === (client.endpoint === "messages");
      answers(setup, client);
      // A refusal is the gateway's own, whatever the kind.
      if (isLong || isOwnKind) refusals(setup, client);
      brokenStreams(setup, client);
    });
  });
}

function answers(setup: SdkSetup, client: SdkClient): void {
  test.each(ways)("gets an answer with its usage, %s, and is charged for that", async (way) => {
    const call = setup.call("whole");
    expect(await ask(client, call, way)).toEqual({
      text: "Hello there",
      usage: expectedUsage,
      finish: "stop",
    });
    expect(await setup.records(call)).toMatchObject([
      { status: "done", endpoint: client.endpoint, stream: way === "as a stream", cost_rub: cost },
    ]);
  });

  test.each(ways)("sees that an answer was bounded, %s", async (way) => {
    const call = setup.call("bounded");
    const { text, finish } = await ask(client, call, way);
    expect([text, finish]).toEqual(["Hello", client.boundedFinish]);
    expect(await setup.records(call)).toMatchObject([{ status: "done", cost_rub: cost }]);
  });

  test.each(ways)("calls a tool and brings its result, %s", async (way) => {
    const call = setup.call("tool");
    const inputs: unknown[] = [];
    const { text } = await client.useTool(call, way, (input) => {
      inputs.push(input);
      return toolOutput;
    });
    expect([inputs, text]).toEqual([[toolInput], "It is mild"]);
    expect(setup.provider.requests[1]?.body).toContain(toolOutput);
    expect(await setup.records(call)).toMatchObject([
      { status: "done", cost_rub: cost },
      { status: "done", cost_rub: cost },
    ]);
  });

  test("asks for an object of a schema, and gets one", async () => {
    const call = setup.call("object");
    expect(await client.askForObject(call)).toEqual(object);
    const schemas = setup.provider.requests.map((request) => scriptOf(request).schemaOf(request));
    expect(schemas).toMatchObject([objectSchema]);
    expect(await setup.records(call)).toMatchObject([{ status: "done", cost_rub: cost }]);
  });
}

function refusals(setup: SdkSetup, client: SdkClient): void {
  const rows: readonly (readonly [
    what: string,
    status: number,
    message: string,
    call: () => WiredCall | Promise<WiredCall>,
  ])[] = [
    [
      "a field that is refused",
      400,
      `${client.refusedField} is not supported`,
      () => setup.call(tieredModel, { asksForRefused: true }),
    ],
    ["what the provider finds wrong", 400, "the prompt is too long", () => setup.call("refuses")],
    ["a wrong key", 401, "invalid api key", () => setup.call("whole", { apiKey: "sk-tg-wrong" })],
    [
      "an account without money",
      402,
      "insufficient balance",
      async () => setup.call("whole", { apiKey: await setup.gateway.key("poor", "0") }),
    ],
    ["an unknown model", 404, "model not found", () => setup.call("nobody")],
    [
      "a request too many",
      429,
      "rate limit exceeded",
      async () => {
        const apiKey = await setup.gateway.key("hasty", "1", "--rpm", "1");
        await client.ask(setup.call("whole", { apiKey }));
        return setup.call("whole", { apiKey });
      },
    ],
    ["providers that are all down", 502, "all providers unavailable", () => setup.call("gone")],
  ];
  const everyWay = rows.flatMap((row) => ways.map((way) => [way, ...row] as const));
  const table = sample(everyWay, 4, ([way, what]) => `${client.name} ${way} ${what}`);

  test.each(table)("asked %s, raises for %s: %i %s", async (way, _, status, message, makeCall) => {
    const call = await makeCall();
    const complaint = client.errorOf(await failure(ask(client, call, way)));
    expect(complaint).toEqual({ status, message: expect.stringContaining(message) });
    expect(call.wire.requests.map(({ status }) => status)).toEqual([status]);
  });
}

function brokenStreams(setup: SdkSetup, client: SdkClient): void {
  test.each([
    ["a provider that cuts its stream", "cut"],
    ["a provider that reports an error in its stream", "reports"],
  ])("raises for %s: a partial text is never taken for a whole answer", async (_, model) => {
    const call = setup.call(model);
    let text = "";
    const error = await failure(client.stream(call, (piece) => (text += piece)));
    expect(text).toBe(beginning);
    const { message } = client.errorOf(error);
    expect(message).toContain("upstream provider failure");
    expect(message).not.toContain(providerSecret);
    expect(await setup.records(call)).toMatchObject([{ status: "failed", cost_rub: "0" }]);
  });

  test.each(ways)(
    "takes no answer for finished that its provider calls failed, %s",
    async (way) => {
      const call = setup.call("fails");
      const finish = await ask(client, call, way).then(
        (told) => told.finish,
        () => "raised",
      );
      // LangChain overlooks `response.failed`: its stream ends without a word, but also without a status.
      expect(finish).not.toBe("stop");
      expect(await setup.records(call)).toMatchObject([{ status: "failed", cost_rub: "0" }]);
    },
  );

  test("aborts a stream: it ends as cancelled, and an estimate is charged", async () => {
    const leaving = new AbortController();
    const call = setup.call("held", { signal: leaving.signal });
    let text = "";
    const reading = client.stream(call, (piece) => {
      text += piece;
      if (text === beginning) leaving.abort();
    });
    // Some SDKs end without an error then: the caller aborted it.
    await reading.catch((error: unknown) => {
      if (!leaving.signal.aborted) throw error;
    });
    expect([text, leaving.signal.aborted]).toEqual([beginning, true]);
    const [record] = await setup.records(call);
    expect(record).toMatchObject({ status: "cancelled", estimated: true });
    const { prompt_tokens: prompt = 0, completion_tokens: completion = 0 } = record ?? {};
    expect(prompt * completion).toBeGreaterThan(0);
    // Anthropic's streams tell the usage of the prompt at their beginning.
    const { cached_tokens: cached = 0, cache_write_tokens: cacheWrite = 0 } = record ?? {};
    const charge = costOf({ prompt, completion, cached, cacheWrite });
    expect(record?.cost_rub).toBe(formatRoubles(charge));
  });
}

function ask(client: SdkClient, call: Call, way: Way): Promise<SdkResult> {
  return way === "in JSON" ? client.ask(call) : client.stream(call, () => {});
}

/** What a call rejects with. */
export function failure(call: Promise<unknown>): Promise<unknown> {
  return call.then(
    () => {
      throw new Error("the SDK took it for a whole answer");
    },
    (error: unknown) => error,
  );
}
