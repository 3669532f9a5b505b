import { describe, expect, test } from "bun:test";
import { noText } from "../../src/contract/textSize.ts";
import { checkResponsesRequest } from "../../src/contract/responses.ts";
import { collidingNames } from "../support/provider/collidingNames.ts";
import { refusalOf } from "./refusal.ts";
import { responsesRows, type Fields } from "./responsesRows.ts";

const rules = {
  refusedFields: ["models", "speed"],
  refusedTools: ["image_search"],
  allowedTools: ["file_search", "code_interpreter", "image_generation", "shell", "a"],
};

const check = (fields: Fields) =>
  checkResponsesRequest(JSON.parse(JSON.stringify({ model: "m", ...fields })), rules);

describe("fields that are checked", () => {
  for (const [fields, expected] of responsesRows) {
    const text = JSON.stringify(fields).slice(0, 90);
    test(`${text}: ${expected ?? "accepted"}`, async () => {
      const refusal = await refusalOf(() => check(fields));
      expect(refusal?.message).toBe(expected);
      if (refusal !== undefined) expect(refusal.status).toBe(400);
    });
  }
});

describe("the result", () => {
  test("of a plain request", () => {
    expect(check({ input: "hello" })).toEqual({
      model: "m",
      stream: false,
      choiceCount: 1,
      outputTokensBound: undefined,
      previousResponseId: undefined,
      comparisonResponseId: undefined,
      objectIds: [],
      referencedIds: new Set(),
      encryptedReasoningIds: [],
      needsWholeContext: false,
      serviceTier: "auto",
      extras: [],
      most: {},
      asked: [],
      toolCallsMax: undefined,
      mayBeKept: true,
      trimsPrompt: false,
      promptSize: { ...noText, textBytes: 5 },
    });
  });

  test("measures the text of a prompt, and counts what is not text apart", () => {
    const image = { type: "input_image", image_url: `data:image/png;base64,${"A".repeat(4000)}` };
    const content = [{ type: "input_text", text: "четыре" }, image];
    const { promptSize } = check({ input: [{ role: "user", content }], instructions: "be brief" });
    const keysAndStrings = [
      "role",
      "user",
      "content",
      "type",
      "input_text",
      "text",
      "четыре",
      "be brief",
    ];
    const textBytes = Buffer.byteLength(keysAndStrings.join(""));
    // The picture has about 3,000 bytes.
    expect(promptSize).toEqual({ ...noText, textBytes, nonTextParts: 1, attachmentTokens: 48 });
  });

  const long = "слово ".repeat(1000);
  test.each<[string, Fields, string, number]>([
    ["documents", { documents: [{ text: long }] }, "text", 0],
    ["the words of a template", { chat_template_kwargs: { date: long } }, "date", 0],
    ["a field that nobody knows", { whatever: long }, "", 0],
    [
      "the variables of a prompt",
      {
        prompt: { id: "pmpt_1", variables: { a: long, b: { type: "input_image", file_id: "f" } } },
      },
      "idpmpt_1variablesab",
      1,
    ],
  ])("measures what a model may read beside the input: %s", (_, fields, around, nonTextParts) => {
    const textBytes = 5 + Buffer.byteLength(long + around);
    const { promptSize } = check({ input: "hello", ...fields });
    expect(promptSize).toMatchObject({ textBytes, nonTextParts });
  });

  test("measures no settings", () => {
    const settings = {
      stream: true,
      stream_options: { include_obfuscation: false },
      previous_response_id: "resp_1",
      conversation: { id: "conv_1" },
      context_management: [{ type: "compaction", compact_threshold: 9 }],
      include: ["reasoning.encrypted_content"],
      metadata: { topic: long },
      prompt_cache_key: "one",
      prompt_cache_retention: "24h",
      reasoning: { effort: "high", summary: "auto" },
      safety_identifier: "one",
      service_tier: "auto",
      tool_choice: { type: "function", name: "f" },
      truncation: "auto",
      user: long,
      top_k: 40,
    };
    expect(check({ input: "hello", ...settings }).promptSize.textBytes).toBe(5);
  });

  test("takes the bound of max_output_tokens alone: the interface knows no other", () => {
    expect(check({ max_output_tokens: 7 }).outputTokensBound).toBe(7);
    expect(check({ max_tokens: 7, max_completion_tokens: 7 }).outputTokensBound).toBeUndefined();
  });

  test("bears stream, choices and the previous response, whatever string it is", () => {
    expect(check({ stream: true, n: 2 })).toMatchObject({ stream: true, choiceCount: 2 });
    for (const id of ["resp_1", "", "../x"]) {
      expect(check({ previous_response_id: id })).toMatchObject({
        previousResponseId: id,
        needsWholeContext: true,
      });
    }
  });
});

test("the response that caches are compared with is known, and brings nothing into the prompt", () => {
  for (const id of ["resp_1", ""]) {
    const request = check({ prompt_cache_options: { comparison_response_id: id } });
    expect([request.comparisonResponseId, request.needsWholeContext]).toEqual([id, false]);
  }
  for (const options of [null, "resp_1", {}]) {
    expect(check({ prompt_cache_options: options }).comparisonResponseId).toBeUndefined();
  }
});

test("reasoning that the request bears is known by its id, in its order, apart from what must be the account's own", () => {
  const reasoning = (id: unknown) => ({ type: "reasoning", id, encrypted_content: "x" });
  const input = ["rs_2", "rs_1", "rs_2", 5, null].map(reasoning);
  const { encryptedReasoningIds, objectIds, needsWholeContext } = check({ input });
  expect([encryptedReasoningIds, objectIds, needsWholeContext]).toEqual([
    ["rs_2", "rs_1", "rs_2"],
    [],
    false,
  ]);
});

test("no more stored objects may be named than are quickly looked up, however long their ids", async () => {
  // The engine's hash forgets what stands behind its first constant: all of these have one hash.
  const ids = (count: number) =>
    collidingNames(count, 2).map((name) => `${"\u4e22".repeat(16)}${name}${"x".repeat(100)}`);
  const named = (count: number) => ({
    input: "x",
    tools: [{ type: "file_search", vector_store_ids: ids(count) }],
  });
  expect(check(named(4096)).objectIds).toHaveLength(4096);
  const refusal = await refusalOf(() => check(named(4097)));
  expect(refusal?.message).toBe("body must name at most 4096 stored objects");
});

describe("what needs the whole context, and which stored objects are named", () => {
  const input = (...items: unknown[]): Fields => ({ input: items });
  const content = (...parts: unknown[]): Fields => input({ role: "user", content: parts });
  const tool = (type: string, more: Fields = {}): Fields => ({ tools: [{ type, ...more }] });
  const text = { type: "input_text", text: "hi" };
  const file = { type: "input_file", file_id: "file-1" };
  const remarks = {
    annotations: [{ type: "file_citation", file_id: "file-9" }],
    logprobs: [{ token: "a", top_logprobs: [{ token: "a" }] }],
  };
  const schema = {
    type: "object",
    properties: { file_id: { type: "string" }, container: { type: "object" } },
  };

  const alone: Readonly<Record<string, Fields>> = {
    "a text": { input: "file_id: file-1" },
    "no input": {},
    "messages with texts": input(
      { role: "user", content: "a" },
      { type: "message", role: "user", content: [text] },
    ),
    "a null type and a role": input({ type: null, role: "user", content: "a" }),
    "an own answer sent back, with remarks on its text": input({
      type: "message",
      id: "msg_1",
      role: "assistant",
      status: "completed",
      content: [{ type: "output_text", text: "a", ...remarks }],
    }),
    "function calls and their outputs": input(
      { type: "function_call", id: "fc_1", call_id: "c", name: "f", arguments: '{"file_id":"x"}' },
      { type: "function_call_output", call_id: "c", output: [{ type: "input_text", text: "a" }] },
      { type: "custom_tool_call", id: "ctc_1", call_id: "d", input: "a" },
      { type: "custom_tool_call_output", call_id: "d", output: "a" },
    ),
    "a function of the caller": tool("function", { parameters: schema }),
    "a custom tool of the caller": tool("custom", { format: schema }),
    "no tools": { tools: [] },
    "fields that are none of the store's": {
      metadata: { file_id: "a", container: "b" },
      text: { format: schema },
    },
    "reasoning that the request bears": input({
      type: "reasoning",
      id: "rs_1",
      summary: [],
      encrypted_content: "x",
    }),
  };
  test.each(Object.entries(alone))("no more than the request has: %s", (_, fields) => {
    expect(check(fields)).toMatchObject({ needsWholeContext: false, objectIds: [] });
  });

  const named: Readonly<Record<string, readonly [fields: Fields, ...ids: string[]]>> = {
    "tools that the caller adds in the input, with an id of its own": [
      input({
        type: "additional_tools",
        id: "at_1",
        role: "developer",
        tools: [{ type: "function" }],
      }),
    ],

    "an image by address": [content(text, { type: "input_image", image_url: "https://x" })],
    "an image by id": [content({ type: "input_image", file_id: "file-1" }), "file-1"],
    "a file by id": [content(file), "file-1"],
    "one id twice": [content(file, file), "file-1"],
    "a file by its data": [content({ type: "input_file", file_data: "data:" })],
    sound: [content({ type: "input_audio" })],
    "a part that nobody knows": [content({ type: "made_up" })],
    "a part in other letter case": [content({ type: "Input_Text" })],
    "a part without a type": [content({ image_url: "https://x" })],
    "a file in a function's output": [
      input({ type: "function_call_output", output: [file] }),
      "file-1",
    ],
    "a lone item": [{ input: { type: "item_reference", id: "msg_1" } }, "msg_1"],
    "items within an array within the input": [input([file]), "file-1"],

    "a reference": [input({ type: "item_reference", id: "msg_1" }), "msg_1"],
    "a reference without a type": [input({ id: "msg_1" }), "msg_1"],
    "a reference with a null type": [input({ type: null, id: "msg_1" }), "msg_1"],
    "a reference that pretends to be a message": [input({ role: "user", id: "msg_1" }), "msg_1"],
    "an empty id": [input({ type: "item_reference", id: "" }), ""],
    "instructions that are items": [
      { instructions: [{ type: "item_reference", id: "msg_1" }] },
      "msg_1",
    ],
    "reasoning that only the provider has": [
      input({ type: "reasoning", id: "rs_1", summary: [] }),
      "rs_1",
    ],
    "a picture made earlier": [input({ type: "image_generation_call", id: "ig_1" }), "ig_1"],
    "an approval": [
      input({ type: "mcp_approval_response", approval_request_id: "mcpr_1", approve: true }),
      "mcpr_1",
    ],
    "a conversation": [{ conversation: "conv_1" }, "conv_1"],
    "a conversation as an object": [{ conversation: { id: "conv_1" } }, "conv_1"],
    "a prompt, with a file among its variables": [
      { prompt: { id: "pmpt_1", version: "2", variables: { file_id: "just a word", doc: file } } },
      "pmpt_1",
      "file-1",
    ],

    "a container that an earlier call ran in": [
      input({ type: "code_interpreter_call", id: "ci_1", container_id: "cntr_1", code: "" }),
      "ci_1",
      "cntr_1",
    ],
    "a shell's container and skill": [
      input({
        type: "shell_call",
        call_id: "c",
        environment: { type: "container_reference", container_id: "cntr_1" },
        skills: [{ type: "skill_reference", skill_id: "skill_1" }],
      }),
      "cntr_1",
      "skill_1",
    ],
    "a search in stores sent back, with what it found": [
      input({
        type: "file_search_call",
        id: "fs_1",
        results: [{ file_id: "file-9", text: "x", attributes: { Type: "manual" } }],
      }),
      "fs_1",
    ],
    "what is found by another tool": [input({ type: "made_up", results: [{ file_id: "f" }] }), "f"],
    "an id inside an environment": [
      input({ type: "local_shell_call", action: { type: "exec", env: [{ file_id: "a" }] } }),
      "a",
    ],

    "a hosted tool": [tool("web_search")],
    "a hosted tool among the caller's": [
      { tools: [{ type: "function" }, { type: "web_search_preview" }] },
    ],
    "a tool without a type": [{ tools: [{ name: "f" }] }],
    "an id inside headers": [tool("mcp", { headers: { one: { file_id: "b" } } }), "b"],
    "a tunnel": [tool("mcp", { tunnel_id: "tunnel_1" }), "tunnel_1"],
    "tools that are no array": [
      { tools: { type: "file_search", vector_store_ids: ["vs_1"] } },
      "vs_1",
    ],
    "a search in stores": [
      tool("file_search", { vector_store_ids: ["vs_1", "vs_2"] }),
      "vs_1",
      "vs_2",
    ],
    "stores as a lone string": [tool("file_search", { vector_store_ids: "vs_1" }), "vs_1"],
    "a container": [tool("code_interpreter", { container: "cntr_1" }), "cntr_1"],
    "a new container with files": [
      tool("code_interpreter", { container: { type: "auto", file_ids: ["file-1", "file-2"] } }),
      "file-1",
      "file-2",
    ],
    "a shell in a container, with a skill": [
      tool("shell", {
        environment: {
          type: "container_reference",
          container_id: "cntr_1",
          skills: [{ skill_id: "skill_1" }],
        },
      }),
      "cntr_1",
      "skill_1",
    ],
    "a mask": [tool("image_generation", { input_image_mask: { file_id: "file-1" } }), "file-1"],
    "a function within a hosted tool: its schema names nothing": [
      tool("namespace", {
        tools: [{ type: "function", parameters: { properties: { file_id: "x" } } }],
      }),
    ],
  };
  test.each(Object.entries(named))("the whole context: %s", (_, [fields, ...ids]) => {
    const { needsWholeContext, objectIds } = check(fields);
    expect([needsWholeContext, objectIds.toSorted()]).toEqual([true, ids.toSorted()]);
  });

  test("an id hundreds of thousands of levels down: no recursion", () => {
    const depth = 200_000;
    const nested = `${'{"a":['.repeat(depth)}{"type":"input_file","file_id":"file-1"}${"]}".repeat(depth)}`;
    const body = JSON.parse(`{"model":"m","input":[${nested}],"tools":[${nested}]}`);
    const { needsWholeContext, objectIds } = checkResponsesRequest(body, rules);
    expect([needsWholeContext, objectIds]).toEqual([true, ["file-1"]]);
  });
});

describe("a part that is not text counts as one part", () => {
  const base64 = "A".repeat(4000);
  const url = `data:image/png;base64,${base64}`;
  const output = (part: object): Fields => ({ type: "function_call_output", output: [part] });
  test.each<[name: string, item: Fields]>([
    [
      "a screenshot",
      { type: "computer_call_output", output: { type: "computer_screenshot", image_url: url } },
    ],
    ["a picture that was made earlier", { type: "image_generation_call", result: base64 }],
    ["a picture in the output of a tool", output({ type: "input_image", image_url: url })],
    ["a picture of MCP's in the output of a tool", output({ type: "image", data: base64 })],
    ["a picture in the form of a chat", output({ type: "image_url", image_url: { url } })],
    ["a file in the output of a tool", output({ type: "input_file", file_data: base64 })],
    ["sound in the output of a tool", output({ type: "audio", data: base64 })],
  ])("%s", (_, item) => {
    const { promptSize } = check({ input: [item] });
    expect(promptSize.nonTextParts).toBe(1);
    expect(promptSize.textBytes).toBeLessThan(100);
  });

  test("except where a schema has a member of that name", () => {
    const parameters = { type: "image", description: base64 };
    const { promptSize } = check({ tools: [{ type: "function", name: "f", parameters }] });
    expect(promptSize.nonTextParts).toBe(0);
    expect(promptSize.textBytes).toBeGreaterThan(4000);
  });

  test("while texts in the same places count as text", () => {
    for (const type of ["input_text", "output_text", "text", "made_up"]) {
      const { promptSize } = check({ input: [output({ type, text: base64 })] });
      expect(promptSize.nonTextParts).toBe(0);
      expect(promptSize.textBytes).toBeGreaterThan(4000);
    }
  });
});
