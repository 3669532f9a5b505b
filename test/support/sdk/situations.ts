import { describe, expect, test } from "bun:test";
import { formatRoubles } from "../../../src/lib/money.ts";
import { costOf } from "../gateway/gatewayConfig.ts";
import type { Call, SdkClient, Told, Way } from "./client.ts";
import { beginning, scripts, tieredModel } from "./provider.ts";
import { secretWords, object, objectSchema, toolInput, toolOutput } from "./script.ts";
import { cost, openSdkWorld, toldUsage, type SdkWorld, type WiredCall } from "./world.ts";

const ways = ["in JSON", "as a stream"] as const;

/** Proves that an SDK gets on with the gateway: in each situation of a client, whether it asks whole or as a stream. */
export function prove(client: SdkClient): void {
  describe(client.name, () => {
    const world = openSdkWorld();
    answers(world, client);
    refusals(world, client);
    brokenStreams(world, client);
  });
}

function answers(world: SdkWorld, client: SdkClient): void {
  test.each(ways)("gets an answer with its usage, %s, and is charged for that", async (way) => {
    const call = world.call("whole");
    expect(await ask(client, call, way)).toEqual({
      text: "Hello there",
      usage: toldUsage,
      finish: "stop",
    });
    expect(await world.records(call)).toMatchObject([
      { status: "done", endpoint: client.endpoint, stream: way === "as a stream", cost_rub: cost },
    ]);
  });

  test.each(ways)("sees that an answer was bounded, %s", async (way) => {
    const call = world.call("bounded");
    const { text, finish } = await ask(client, call, way);
    expect([text, finish]).toEqual(["Hello", client.boundedFinish]);
    expect(await world.records(call)).toMatchObject([{ status: "done", cost_rub: cost }]);
  });

  test.each(ways)("calls a tool and brings its result, %s", async (way) => {
    const call = world.call("tool");
    const inputs: unknown[] = [];
    const { text } = await client.useTool(call, way, (input) => {
      inputs.push(input);
      return toolOutput;
    });
    expect([inputs, text]).toEqual([[toolInput], "It is mild"]);
    expect(world.provider.requests[1]?.body).toContain(toolOutput);
    expect(await world.records(call)).toMatchObject([
      { status: "done", cost_rub: cost },
      { status: "done", cost_rub: cost },
    ]);
  });

  test("asks for an object of a schema, and gets one", async () => {
    const call = world.call("object");
    expect(await client.askForObject(call)).toEqual(object);
    const script = scripts[client.endpoint];
    const schemas = world.provider.requests.map((request) => script.schemaOf(request));
    expect(schemas).toMatchObject([objectSchema]);
    expect(await world.records(call)).toMatchObject([{ status: "done", cost_rub: cost }]);
  });
}

function refusals(world: SdkWorld, client: SdkClient): void {
  const rows: readonly (readonly [
    what: string,
    status: number,
    message: string,
    call: () => WiredCall | Promise<WiredCall>,
  ])[] = [
    [
      "a field that is refused",
      400,
      "service_tier is not supported",
      () => world.call(tieredModel, { asksForPriority: true }),
    ],
    ["what the provider finds wrong", 400, "the prompt is too long", () => world.call("refuses")],
    ["a wrong key", 401, "invalid api key", () => world.call("whole", { apiKey: "sk-tg-wrong" })],
    [
      "an account without money",
      402,
      "insufficient balance",
      async () => world.call("whole", { apiKey: await world.gateway.key("poor", "0") }),
    ],
    ["an unknown model", 404, "model not found", () => world.call("nobody")],
    [
      "a request too many",
      429,
      "rate limit exceeded",
      async () => {
        const apiKey = await world.gateway.key("hasty", "1", "--rpm", "1");
        await client.ask(world.call("whole", { apiKey }));
        return world.call("whole", { apiKey });
      },
    ],
    ["providers that are all down", 502, "all providers unavailable", () => world.call("gone")],
  ];
  const table = rows.flatMap((row) => ways.map((way) => [way, ...row] as const));

  test.each(table)("asked %s, raises for %s: %i %s", async (way, _, status, message, makeCall) => {
    const call = await makeCall();
    const complaint = client.complaintOf(await failure(ask(client, call, way)));
    expect(complaint).toEqual({ status, message: expect.stringContaining(message) });
    expect(call.wire.requests.map(({ status }) => status)).toEqual([status]);
  });
}

function brokenStreams(world: SdkWorld, client: SdkClient): void {
  test.each([
    ["a provider that cuts its stream", "cut"],
    ["a provider that reports an error amid its stream", "reports"],
  ])("raises for %s: the beginning never passes for a whole answer", async (_, model) => {
    const call = world.call(model);
    let text = "";
    const error = await failure(client.stream(call, (piece) => (text += piece)));
    expect(text).toBe(beginning);
    const { message } = client.complaintOf(error);
    expect(message).toContain("upstream provider failure");
    expect(message).not.toContain(secretWords);
    expect(await world.records(call)).toMatchObject([{ status: "failed", cost_rub: "0" }]);
  });

  test.each(ways)(
    "takes no answer for finished that its provider calls failed, %s",
    async (way) => {
      const call = world.call("fails");
      const finish = await ask(client, call, way).then(
        (told) => told.finish,
        () => "raised",
      );
      // LangChain overlooks `response.failed`: its stream ends without a word, but also without a status.
      expect(finish).not.toBe("stop");
      expect(await world.records(call)).toMatchObject([{ status: "failed", cost_rub: "0" }]);
    },
  );

  test("aborts a stream: it ends as cancelled, and an estimate is charged", async () => {
    const leaving = new AbortController();
    const call = world.call("held", { signal: leaving.signal });
    let text = "";
    const reading = client.stream(call, (piece) => {
      text += piece;
      if (text === beginning) leaving.abort();
    });
    // Some SDKs end quietly then: whoever aborts knows that there is more.
    await reading.catch((error: unknown) => {
      if (!leaving.signal.aborted) throw error;
    });
    expect([text, leaving.signal.aborted]).toEqual([beginning, true]);
    const [record] = await world.records(call);
    expect(record).toMatchObject({ status: "cancelled", estimated: true });
    const { prompt_tokens: prompt = 0, completion_tokens: completion = 0 } = record ?? {};
    expect(prompt * completion).toBeGreaterThan(0);
    expect(record?.cost_rub).toBe(formatRoubles(costOf({ prompt, completion })));
  });
}

function ask(client: SdkClient, call: Call, way: Way): Promise<Told> {
  return way === "in JSON" ? client.ask(call) : client.stream(call, () => {});
}

/** What a call rejects with. */
function failure(call: Promise<unknown>): Promise<unknown> {
  return call.then(
    () => {
      throw new Error("the SDK took it for a whole answer");
    },
    (error: unknown) => error,
  );
}
