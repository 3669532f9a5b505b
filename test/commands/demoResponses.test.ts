import { afterAll, describe, expect, test } from "bun:test";
import { startDemoProvider } from "../../src/commands/demo/provider.ts";
import {
  chat,
  connect,
  failure,
  frames,
  hello,
  model,
  post,
  wholeText,
} from "../support/binary/demoClient.ts";

const provider = startDemoProvider({ wordDelayMs: 0 });
afterAll(() => provider.stop());

const client = connect(provider.url);

describe("a response", () => {
  test("has the text and the usage that a chat of the same words has", async () => {
    const response = await client.responses.create({ model, input: hello[0].content });
    const completion = await client.chat.completions.create(chat());
    expect(response).toMatchObject({
      object: "response",
      status: "completed",
      model,
      incomplete_details: null,
    });
    expect(response.output_text).toBe(completion.choices[0]?.message.content ?? "");
    expect(response.usage).toEqual({
      input_tokens: completion.usage?.prompt_tokens ?? NaN,
      input_tokens_details: { cached_tokens: 0 },
      output_tokens: completion.usage?.completion_tokens ?? NaN,
      output_tokens_details: { reasoning_tokens: 0 },
      total_tokens: completion.usage?.total_tokens ?? NaN,
    } as NonNullable<typeof response.usage>);
  });

  test("reads input items and instructions", async () => {
    const input = [
      { role: "user" as const, content: [{ type: "input_text" as const, text: "two words" }] },
    ];
    const response = await client.responses.create({ model, input, instructions: "be kind" });
    expect(response.output_text).toContain("You sent me 2 words,");
    expect(response.usage?.input_tokens).toBe(3 + 3 + 3 + 2);
  });

  test("goes on from an id that this provider gave, and from no other", async () => {
    const { id } = await client.responses.create({ model, input: "hello" });
    const next = await client.responses.create({
      model,
      input: "and then?",
      previous_response_id: id,
    });
    expect(next.previous_response_id).toBe(id);
    const stranger = client.responses.create({
      model,
      input: "and then?",
      previous_response_id: "resp_x",
    });
    expect(await failure(stranger)).toMatchObject({
      status: 400,
      code: "previous_response_not_found",
    });
  });

  test("that reaches max_output_tokens is incomplete", async () => {
    const response = await client.responses.create({ model, input: "hello", max_output_tokens: 6 });
    expect(response.status).toBe("incomplete");
    expect(response.incomplete_details).toEqual({ reason: "max_output_tokens" });
    expect(response.usage?.output_tokens).toBe(6);
  });
});

describe("a response stream", () => {
  test("has the full sequence of events, numbered and named", async () => {
    const events = await frames(
      await post(`${provider.url}/responses`, {
        model,
        input: "hello there provider",
        stream: true,
      }),
    );
    const parsed = events.map((event) => /^event: (\S+)\ndata: (.*)$/.exec(event)?.slice(1) ?? []);
    const data = parsed.map(([, json]) => JSON.parse(json ?? ""));
    expect(data.map((event) => event.type)).toEqual(parsed.map(([name]) => name));
    expect(data.map((event) => event.sequence_number)).toEqual([...data.keys()]);
    const deltas = data.filter((event) => event.type === "response.output_text.delta");
    expect(deltas.map((event) => event.delta).join("")).toBe(await wholeText(client));
    expect(
      data.map((event) => event.type).filter((type, at, types) => type !== types[at - 1]),
    ).toEqual([
      "response.created",
      "response.in_progress",
      "response.output_item.added",
      "response.content_part.added",
      "response.output_text.delta",
      "response.output_text.done",
      "response.content_part.done",
      "response.output_item.done",
      "response.completed",
    ]);
    const { response } = data.at(-1);
    expect(response).toMatchObject({ id: data[0].response.id, status: "completed" });
    expect(response.output[0]).toEqual(data.at(-2).item);
    expect(response.usage.total_tokens).toBe(
      response.usage.input_tokens + response.usage.output_tokens,
    );
    expect(data[0].response.usage).toBeNull();
  });

  test("can be followed with the official client, to an incomplete end too", async () => {
    const stream = client.responses.stream({ model, input: "hello", max_output_tokens: 6 });
    let text = "";
    stream.on("response.output_text.delta", ({ delta }) => (text += delta));
    const types: string[] = [];
    for await (const event of stream) types.push(event.type);
    expect(types.at(-1)).toBe("response.incomplete");
    expect(text).toBe((await wholeText(client)).slice(0, text.length));
    expect((await stream.finalResponse()).usage?.output_tokens).toBe(6);
  });
});
