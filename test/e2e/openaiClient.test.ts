import OpenAI, { NotFoundError } from "openai";
import { describe, expect, test } from "bun:test";
import { startDemoProvider } from "../../src/commands/demo/provider.ts";
import { startLoadProvider } from "../support/provider/loadProvider.ts";
import { chat, failure, hello, wholeText } from "../support/binary/demoClient.ts";
import { costOf } from "../support/gateway/gatewayConfig.ts";
import { openBinaryBefore } from "../support/binary/gatewayBefore.ts";
import { formatRoubles } from "../../src/lib/money.ts";

const provider = startDemoProvider({ wordDelayMs: 0 });
/** It has the responses interface, which the demo provider has not. */
const native = startLoadProvider({ wordDelayMs: 0 });

const setup = openBinaryBefore(
  {
    providers: { demo: provider.url, native: native.url },
    models: [
      { id: "demo", routes: [{ provider: "demo", responses: false }] },
      { id: "other", routes: [{ provider: "native" }] },
    ],
  },
  provider,
  native,
);

/** The official client. Only the base URL and the key are changed. */
function client(): OpenAI {
  return new OpenAI({ baseURL: `${setup.gateway.url}/v1`, apiKey: setup.key, maxRetries: 0 });
}

describe("the official client", () => {
  test("gets a chat completion under the public model id, and is charged its price exactly", async () => {
    const { data, response } = await client()
      .chat.completions.create(chat({ model: "demo" }))
      .withResponse();
    expect(data).toMatchObject({ object: "chat.completion", model: "demo" });
    expect(data.choices[0]?.message.content).toBe(
      await wholeText(new OpenAI({ baseURL: provider.url, apiKey: "any" })),
    );
    const { prompt_tokens: prompt = 0, completion_tokens: completion = 0 } = data.usage ?? {};
    const charge = formatRoubles(costOf({ prompt, completion }));
    expect(prompt * completion).toBeGreaterThan(0);
    expect(response.headers.get("x-tollgate-cost-rub")).toBe(charge);
    const id = response.headers.get("x-request-id") ?? "";
    expect(await setup.gateway.request(id)).toMatchObject({ status: "done", cost_rub: charge });
  });

  test.each([
    ["does not ask for usage", undefined],
    ["asks for usage", { include_usage: true }],
  ] as const)(
    "follows a chat stream to its end, with usage only if it asks for it: it %s",
    async (_, streamOptions) => {
      const { data, response } = await client()
        .chat.completions.create({
          ...chat({ model: "demo" }),
          stream: true,
          ...(streamOptions ? { stream_options: streamOptions } : {}),
        })
        .withResponse();
      const chunks = await Array.fromAsync(data);
      const whole = await client().chat.completions.create(chat({ model: "demo" }));
      const text = chunks.map((chunk) => chunk.choices[0]?.delta.content ?? "").join("");
      expect(text).toBe(whole.choices[0]?.message.content ?? "");
      expect(chunks.filter(({ choices }) => choices.length === 0)).toEqual([]);
      const last = chunks.at(-1);
      expect(last?.choices[0]?.finish_reason).toBe("stop");
      expect(last?.usage ?? undefined).toEqual(streamOptions && whole.usage);
      const id = response.headers.get("x-request-id") ?? "";
      const { prompt_tokens: prompt = 0, completion_tokens: completion = 0 } = whole.usage ?? {};
      expect(await setup.gateway.request(id)).toMatchObject({
        status: "done",
        cost_rub: formatRoubles(costOf({ prompt, completion })),
      });
    },
  );

  test("gets a response, and continues it", async () => {
    const first = await client().responses.create({ model: "other", input: hello[0].content });
    expect(first).toMatchObject({ object: "response", status: "completed" });
    expect(first.output_text).toBe("Hello there");
    const next = await client().responses.create({
      model: "other",
      input: "and then?",
      previous_response_id: first.id,
    });
    expect(next.status).toBe("completed");
  });

  test("lists the models with their prices, and retrieves one that there is", async () => {
    const listed = await Array.fromAsync(client().models.list());
    expect(listed.map(({ id }) => id)).toEqual(["demo", "other"]);
    const model: unknown = await client().models.retrieve("demo");
    expect(model).toMatchObject({
      id: "demo",
      object: "model",
      rub_input_per_1m: 25_000,
      rub_output_per_1m: 200_000,
    });
    expect(await failure(client().models.retrieve("nobody"))).toBeInstanceOf(NotFoundError);
  });
});
