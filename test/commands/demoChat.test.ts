import { afterAll, describe, expect, test } from "bun:test";
import { startDemoProvider } from "../../src/commands/demo/provider.ts";
import {
  chat,
  connect,
  frames,
  hello,
  model,
  post,
  wholeText,
} from "../support/binary/demoClient.ts";

const provider = startDemoProvider({ wordDelayMs: 0 });
afterAll(() => provider.stop());

const client = connect(provider.url);

describe("a chat completion", () => {
  test("is friendly, says who it is, and counts the user's words", async () => {
    const completion = await client.chat.completions.create({
      model,
      messages: [{ role: "system", content: "not counted among them" }, ...hello],
    });
    expect(completion).toMatchObject({ object: "chat.completion", model });
    expect(completion.choices).toHaveLength(1);
    expect(completion.choices[0]).toMatchObject({
      index: 0,
      finish_reason: "stop",
      message: { role: "assistant" },
    });
    expect(completion.choices[0]?.message.content).toContain(
      "from the demo provider! You sent me 3 words,",
    );
  });

  test("is the same for the same request, but for its id", async () => {
    const [first, second] = await Promise.all(
      [1, 2].map(() => client.chat.completions.create(chat())),
    );
    expect(second?.choices).toEqual(first?.choices ?? []);
    expect(second?.usage).toEqual(first?.usage);
    expect(second?.id).not.toBe(first?.id);
  });

  test("counts a token for each four characters of a word, and three for each message", async () => {
    const messages = [
      { role: "system" as const, content: "four fives" }, // 1 + 2, and 3
      { role: "user" as const, content: [{ type: "text" as const, text: "a bb  ccc\n12345678" }] }, // 3 + 2, and 3
    ];
    const { usage } = await client.chat.completions.create({ model, messages, max_tokens: 5 });
    expect(usage).toMatchObject({ prompt_tokens: 14, completion_tokens: 5, total_tokens: 19 });
    expect(usage?.prompt_tokens_details?.cached_tokens).toBe(0);
  });

  test("reports half of a long prompt as cached, in steps of 128 tokens", async () => {
    const cached = async (words: number): Promise<number | undefined> => {
      const messages = [{ role: "user" as const, content: "word ".repeat(words).trim() }];
      const { usage } = await client.chat.completions.create({ model, messages, max_tokens: 1 });
      expect(usage?.prompt_tokens).toBe(words + 3);
      return usage?.prompt_tokens_details?.cached_tokens;
    };
    expect(await cached(1020)).toBe(0);
    expect(await cached(1021)).toBe(512);
    expect(await cached(1400)).toBe(640);
  });

  test.each(["max_tokens", "max_completion_tokens"])(
    "ends with length at the bound of %s",
    async (bound) => {
      const completion = await client.chat.completions.create(chat({ [bound]: 7 }));
      expect(completion.choices[0]?.finish_reason).toBe("length");
      expect(completion.usage?.completion_tokens).toBe(7);
      const content = completion.choices[0]?.message.content ?? "";
      expect(content).not.toBe("");
      expect((await wholeText(client)).startsWith(content)).toBe(true);
    },
  );

  test("that fits its bound exactly ends with stop", async () => {
    const { usage } = await client.chat.completions.create(chat());
    const completion = await client.chat.completions.create(
      chat({ max_tokens: usage?.completion_tokens }),
    );
    expect(completion.choices[0]?.finish_reason).toBe("stop");
    expect(completion.usage).toEqual(usage as NonNullable<typeof usage>);
  });

  test.each([
    ["one", " provider!"],
    ["several, at the first of them", ["nowhere", "small server", " provider!"]],
  ])("ends before a stop sequence: %s", async (_, stop) => {
    const completion = await client.chat.completions.create(chat({ stop }));
    expect(completion.choices[0]).toMatchObject({
      finish_reason: "stop",
      message: { content: "Hello from the demo" },
    });
    expect(completion.usage?.completion_tokens).toBe(5);
  });

  test("has as many choices as asked for, each of its own, all of them in the usage", async () => {
    const one = await client.chat.completions.create(chat({ max_tokens: 9 }));
    const three = await client.chat.completions.create(chat({ n: 3, max_tokens: 9 }));
    expect(three.choices.map((choice) => choice.index)).toEqual([0, 1, 2]);
    expect(new Set(three.choices.map((choice) => choice.message.content)).size).toBe(3);
    expect(three.usage).toMatchObject({
      prompt_tokens: one.usage?.prompt_tokens,
      completion_tokens: 27,
    });
  });
});

describe("a chat stream", () => {
  test("is a role, words, an end, the usage if asked for, and [DONE]", async () => {
    const response = await post(
      `${provider.url}/chat/completions`,
      chat({ stream: true, stream_options: { include_usage: true } }),
    );
    expect(response.headers.get("content-type")).toStartWith("text/event-stream");
    const events = await frames(response);
    expect(events.at(-1)).toBe("data: [DONE]");
    const chunks = events.slice(0, -1).map((event) => JSON.parse(event.replace(/^data: /, "")));
    const [role, ...rest] = chunks;
    const [end, usage] = rest.splice(-2);
    expect(role.choices[0]).toMatchObject({
      delta: { role: "assistant", content: "" },
      finish_reason: null,
    });
    expect(end.choices).toEqual([{ index: 0, delta: {}, logprobs: null, finish_reason: "stop" }]);
    expect(rest.map((chunk) => chunk.choices[0].delta.content).join("")).toBe(
      await wholeText(client),
    );
    expect(rest.every((chunk) => /^\s*\S+$/.test(chunk.choices[0].delta.content))).toBe(true);
    expect(usage.choices).toEqual([]);
    expect(usage.usage).toEqual((await client.chat.completions.create(chat())).usage);
    expect(chunks.slice(0, -1).every((chunk) => chunk.usage === null)).toBe(true);
    expect(new Set(chunks.map((chunk) => chunk.id)).size).toBe(1);
    expect(
      chunks.every((chunk) => chunk.object === "chat.completion.chunk" && chunk.model === model),
    ).toBe(true);
  });

  test("speaks of no usage unless asked", async () => {
    const events = await frames(
      await post(`${provider.url}/chat/completions`, chat({ stream: true })),
    );
    expect(events.join("\n")).not.toContain("usage");
    expect(events.at(-2)).toContain('"finish_reason":"stop"');
  });

  test("carries every choice to its own end", async () => {
    const whole = await client.chat.completions.create(chat({ n: 3, max_tokens: 12 }));
    const stream = await client.chat.completions.create({
      ...chat({ n: 3, max_tokens: 12 }),
      stream: true,
    });
    const texts = ["", "", ""];
    const ends: string[] = [];
    for await (const { choices } of stream) {
      for (const choice of choices) {
        texts[choice.index] += choice.delta.content ?? "";
        if (choice.finish_reason !== null) ends.push(`${choice.index} ${choice.finish_reason}`);
      }
    }
    expect(texts).toEqual(whole.choices.map((choice) => choice.message.content ?? ""));
    expect(ends).toEqual(["0 length", "1 length", "2 length"]);
  });
});
