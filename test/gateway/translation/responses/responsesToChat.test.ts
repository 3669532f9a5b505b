import { describe, expect, test } from "bun:test";
import { chatBodyOf } from "../../../../src/gateway/translation/responses/responsesToChat.ts";
import { parseExactly } from "../../../../src/lib/exactJson.ts";
import type { JsonFields } from "../../../../src/lib/json.ts";
import { openaiResponses } from "../../../../src/providers/openai/openaiResponses.ts";
import { UnsupportedRequestError } from "../../../../src/providers/provider.ts";
import { callOf } from "../../../providers/conformance/reading.ts";
import { sentText } from "../../../support/provider/sentText.ts";

const schema = { type: "object", properties: { a: { type: "string" } } };
const pixel = "data:image/png;base64,iVBORw0KGgo=";

/** The chat of a request with these fields. */
function chatOf(fields: object): JsonFields {
  return chatBodyOf({ model: "small", input: "hello", store: false, ...fields });
}

const least = { model: "small", messages: [{ role: "user", content: "hello" }] };

describe("a field of a request", () => {
  const rows: readonly (readonly [string, object, object])[] = [
    ["nothing", {}, {}],
    [
      "a stream",
      { stream: true, stream_options: { include_obfuscation: false } },
      { stream: true },
    ],
    ["a bound", { max_output_tokens: 7 }, { max_completion_tokens: 7 }],
    ["the other names of the bound", { max_tokens: 7, max_completion_tokens: 7 }, {}],
    ["sampling", { temperature: 0.5, top_p: 0.25 }, { temperature: 0.5, top_p: 0.25 }],
    ["an effort", { reasoning: { effort: "high" } }, { reasoning_effort: "high" }],
    ["the least effort", { reasoning: { effort: "minimal" } }, { reasoning_effort: "minimal" }],
    ["the greatest effort", { reasoning: { effort: "ultra" } }, { reasoning_effort: "max" }],
    [
      "no effort",
      { reasoning: { effort: "none", context: "all_turns" } },
      { reasoning_effort: "none" },
    ],
    ["a long summary", { reasoning: { summary: "detailed" } }, { reasoningSummary: "detail" }],
    ["any summary", { reasoning: { summary: "auto" } }, { reasoningSummary: "auto" }],
    ["no summary", { reasoning: { summary: "none" } }, {}],
    ["plain text", { text: { format: { type: "text" }, verbosity: "low" } }, { verbosity: "low" }],
    [
      "any JSON",
      { text: { format: { type: "json_object" } } },
      { response_format: { type: "json_object" } },
    ],
    [
      "JSON after a schema",
      { text: { format: { type: "json_schema", name: "n", schema, strict: true } } },
      {
        response_format: { type: "json_schema", json_schema: { name: "n", schema, strict: true } },
      },
    ],
    [
      "token probabilities",
      { include: ["message.output_text.logprobs"], top_logprobs: 3 },
      { logprobs: true, top_logprobs: 3 },
    ],
    ["a count of probabilities alone, which has no effect", { top_logprobs: 3 }, {}],
    [
      "fields of the same meaning",
      { user: "u", safety_identifier: "s", prompt_cache_key: "k", service_tier: "auto" },
      { user: "u", safety_identifier: "s", prompt_cache_key: "k", service_tier: "auto" },
    ],
    [
      "fields without an effect",
      {
        include: ["reasoning.encrypted_content", "web_search_call.action.sources"],
        metadata: { a: "b" },
        truncation: "auto",
        max_tool_calls: 3,
        client_metadata: { session_id: "x" },
        background: false,
        previous_response_id: null,
      },
      {},
    ],
    ["a field that no interface lists", { top_k: 5 }, { top_k: 5 }],
    ["choices of tools, without tools", { tool_choice: "auto", parallel_tool_calls: true }, {}],
  ];
  test.each(rows)("%s", (_, fields, expected) => {
    expect(chatOf(fields)).toEqual({ ...least, ...expected });
  });

  test("digits that a number cannot hold are kept", () => {
    const text =
      '{"model":"m","store":false,"input":"x","tools":[{"type":"function","name":"f","parameters":{"const":12345678901234567890}}]}';
    const chat = chatBodyOf(parseExactly(text) as JsonFields);
    expect(JSON.stringify(chat)).toContain('{"const":12345678901234567890}');
  });
});

describe("an item of the input", () => {
  const user = { role: "user", content: "hi" };
  const rows: readonly (readonly [string, readonly unknown[], readonly unknown[]])[] = [
    ["a plain message", [user], [user]],
    ["a message with a type", [{ type: "message", id: "msg_1", ...user }], [user]],
    [
      "one text",
      [{ role: "user", content: [{ type: "input_text", text: "hi" }] }],
      [{ role: "user", content: "hi" }],
    ],
    [
      "instructions in parts, as one text",
      [
        {
          role: "developer",
          content: [
            { type: "input_text", text: "a" },
            { type: "input_text", text: "b" },
          ],
        },
      ],
      [{ role: "system", content: "a\n\nb" }],
    ],
    [
      "an image, a file, a recording and a marked text",
      [
        {
          role: "user",
          content: [
            { type: "input_text", text: "look", cache_control: { type: "ephemeral" } },
            { type: "input_image", image_url: pixel, detail: "original" },
            { type: "input_image", image_url: pixel },
            { type: "input_image", image_url: "data:image/JPG;base64,AA==" },
            {
              type: "input_file",
              filename: "a.pdf",
              file_data: "data:application/pdf;base64,AA==",
            },
            { type: "input_file", file_url: "https://example.com/a.pdf" },
            { type: "input_file", file_id: "file_1" },
            { type: "input_audio", input_audio: { data: "AA==", format: "wav" } },
          ],
        },
      ],
      [
        {
          role: "user",
          content: [
            { type: "text", text: "look", cache_control: { type: "ephemeral" } },
            { type: "image_url", image_url: { url: pixel, detail: "high" } },
            { type: "image_url", image_url: { url: pixel } },
            { type: "image_url", image_url: { url: "data:image/jpeg;base64,AA==" } },
            {
              type: "file",
              file: { filename: "a.pdf", file_data: "data:application/pdf;base64,AA==" },
            },
            { type: "file", file: { file_data: "https://example.com/a.pdf" } },
            { type: "file", file: { file_id: "file_1" } },
            { type: "input_audio", input_audio: { data: "AA==", format: "wav" } },
          ],
        },
      ],
    ],
    [
      "an answer with calls and their results",
      [
        user,
        { type: "reasoning", id: "rs_1", summary: [{ type: "summary_text", text: "hm" }] },
        {
          type: "message",
          role: "assistant",
          content: [{ type: "output_text", text: "I look.", annotations: [] }],
        },
        { type: "function_call", call_id: "c1", name: "f", arguments: '{"a":1}' },
        { type: "custom_tool_call", call_id: "c2", name: "patch", input: "a\n" },
        { type: "function_call", call_id: "c3", name: "g", namespace: "ns", arguments: "{}" },
        { type: "function_call_output", call_id: "c1", output: "one" },
        {
          type: "custom_tool_call_output",
          call_id: "c2",
          output: [
            { type: "input_text", text: "two" },
            { type: "input_text", text: "lines" },
          ],
        },
        {
          type: "function_call_output",
          call_id: "c3",
          output: [{ type: "input_image", image_url: pixel }],
        },
      ],
      [
        user,
        {
          role: "assistant",
          content: "I look.",
          reasoning_content: "hm",
          tool_calls: [
            { id: "c1", type: "function", function: { name: "f", arguments: '{"a":1}' } },
            {
              id: "c2",
              type: "function",
              function: { name: "patch", arguments: '{"input":"a\\n"}' },
            },
            { id: "c3", type: "function", function: { name: "ns__g", arguments: "{}" } },
          ],
        },
        { role: "tool", tool_call_id: "c1", content: "one" },
        { role: "tool", tool_call_id: "c2", content: "two\n\nlines" },
        {
          role: "tool",
          tool_call_id: "c3",
          content: [{ type: "image_url", image_url: { url: pixel } }],
        },
      ],
    ],
    [
      "a text after calls, which stays before their results",
      [
        { type: "function_call", call_id: "c1", name: "f", arguments: "{}" },
        { role: "assistant", content: "Wait." },
        { type: "function_call_output", call_id: "c1", output: "" },
      ],
      [
        {
          role: "assistant",
          content: "Wait.",
          tool_calls: [{ id: "c1", type: "function", function: { name: "f", arguments: "{}" } }],
        },
        { role: "tool", tool_call_id: "c1", content: "" },
      ],
    ],
    [
      "two answers in a row",
      [
        { role: "assistant", content: "One." },
        { role: "assistant", content: "Two." },
      ],
      [
        { role: "assistant", content: "One." },
        { role: "assistant", content: "Two." },
      ],
    ],
    [
      "a refusal",
      [{ role: "assistant", content: [{ type: "refusal", refusal: "No." }] }],
      [{ role: "assistant", content: null, refusal: "No." }],
    ],
    [
      "calls of the local shell and of a tool search",
      [
        {
          type: "local_shell_call",
          id: "lsh_1",
          call_id: "c1",
          status: "completed",
          action: { type: "exec", command: ["ls"], env: {} },
        },
        { type: "local_shell_call_output", id: "c1", output: "a.txt" },
        { type: "tool_search_call", call_id: "c2", execution: "client", arguments: { query: "q" } },
        {
          type: "tool_search_output",
          call_id: "c2",
          tools: [{ type: "namespace", name: "ns", tools: [{ type: "function", name: "g" }] }],
        },
      ],
      [
        {
          role: "assistant",
          content: null,
          tool_calls: [
            {
              id: "c1",
              type: "function",
              function: { name: "local_shell", arguments: '{"command":["ls"],"env":{}}' },
            },
          ],
        },
        { role: "tool", tool_call_id: "c1", content: "a.txt" },
        {
          role: "assistant",
          content: null,
          tool_calls: [
            {
              id: "c2",
              type: "function",
              function: { name: "tool_search", arguments: '{"query":"q"}' },
            },
          ],
        },
        { role: "tool", tool_call_id: "c2", content: '{"tools":["ns__g"]}' },
      ],
    ],
    [
      "reasoning that another provider encrypted, and reasoning without an answer",
      [
        user,
        {
          type: "reasoning",
          summary: [{ type: "summary_text", text: "x" }],
          encrypted_content: "gA",
        },
        { role: "assistant", content: "Yes." },
        user,
        { type: "reasoning", summary: [{ type: "summary_text", text: "y" }] },
        { type: "web_search_call", id: "ws_1", status: "completed" },
        user,
      ],
      [user, { role: "assistant", content: "Yes." }, user, user],
    ],
  ];
  test.each(rows)("%s", (_, input, messages) => {
    expect(chatOf({ input })["messages"]).toEqual(messages);
  });

  test("the instructions come first", () => {
    const chat = chatOf({ instructions: "Be brief.", input: [user] });
    expect(chat["messages"]).toEqual([{ role: "system", content: "Be brief." }, user]);
  });
});

describe("a tool", () => {
  const functionOf = (name: string, more: object = {}) => ({
    type: "function",
    function: { name, ...more },
  });
  const rows: readonly (readonly [string, readonly unknown[], readonly unknown[]])[] = [
    [
      "a function",
      [{ type: "function", name: "f", description: "d", parameters: schema, strict: true }],
      [functionOf("f", { description: "d", parameters: schema, strict: true })],
    ],
    [
      "a function that says little",
      [{ type: "function", name: "f", parameters: null, strict: null }],
      [functionOf("f")],
    ],
    [
      "a function with a cached prefix",
      [{ type: "function", name: "f", cache_control: { type: "ephemeral" } }],
      [{ ...functionOf("f"), cache_control: { type: "ephemeral" } }],
    ],
    [
      "tools of a namespace",
      [
        {
          type: "namespace",
          name: "ns",
          tools: [{ type: "function", name: "f" }],
        },
      ],
      [functionOf("ns__f")],
    ],
    ["web search, which is left out", [{ type: "web_search" }, { type: "web_search_preview" }], []],
    [
      "a search of tools that the client runs",
      [{ type: "tool_search", execution: "client", description: "d", parameters: schema }],
      [functionOf("tool_search", { description: "d", parameters: schema })],
    ],
    [
      "the same name twice: the last one counts",
      [
        { type: "function", name: "f", description: "old" },
        { type: "function", name: "f", description: "new" },
      ],
      [functionOf("f", { description: "new" })],
    ],
  ];
  test.each(rows)("%s", (_, tools, expected) => {
    expect(chatOf({ tools })["tools"] ?? []).toEqual(expected);
  });

  test("with free text becomes a function with one argument that tells its grammar", () => {
    const format = { type: "grammar", syntax: "lark", definition: 'start: "a"' };
    const tools = [{ type: "custom", name: "patch", description: "d", format }];
    expect(chatOf({ tools })["tools"]).toEqual([
      functionOf("patch", {
        description: "d",
        parameters: {
          type: "object",
          properties: {
            input: {
              type: "string",
              description:
                'The whole input of the tool, as plain text.\nIt must match this grammar (lark):\nstart: "a"',
            },
          },
          required: ["input"],
          additionalProperties: false,
        },
      }),
    ]);
  });

  test("of an item is added to the others", () => {
    const input = [
      { type: "additional_tools", role: "developer", tools: [{ type: "function", name: "g" }] },
      { role: "user", content: "hi" },
    ];
    const chat = chatOf({ input, tools: [{ type: "function", name: "f" }] });
    expect(chat["tools"]).toEqual([functionOf("f"), functionOf("g")]);
    expect(chat["messages"]).toHaveLength(1);
  });

  test("of a long namespace gets a short name, always the same", () => {
    const tools = [
      { type: "namespace", name: "n".repeat(60), tools: [{ type: "function", name: "first" }] },
      { type: "namespace", name: "n".repeat(60), tools: [{ type: "function", name: "second" }] },
    ];
    const names = JSON.stringify(chatOf({ tools })["tools"]).match(/n{50}[^"]*/g) ?? [];
    expect(names.map((name) => name.length)).toEqual([64, 64]);
    expect(new Set(names).size).toBe(2);
    expect(JSON.stringify(chatOf({ tools })["tools"])).toContain(names[0] ?? "none");
  });

  const choices: readonly (readonly [unknown, unknown])[] = [
    ["required", "required"],
    [
      { type: "function", name: "f" },
      { type: "function", function: { name: "f" } },
    ],
    [
      { type: "custom", name: "patch" },
      { type: "function", function: { name: "patch" } },
    ],
    [
      {
        type: "allowed_tools",
        mode: "auto",
        tools: [{ type: "function", name: "f" }, { type: "web_search" }],
      },
      {
        type: "allowed_tools",
        allowed_tools: { mode: "auto", tools: [{ type: "function", function: { name: "f" } }] },
      },
    ],
  ];
  test.each(choices)("can be chosen: %j", (choice, expected) => {
    const tools = [{ type: "function", name: "f" }];
    const chat = chatOf({ tools, tool_choice: choice, parallel_tool_calls: false });
    expect(chat).toMatchObject({ tool_choice: expected, parallel_tool_calls: false });
  });
});

describe("refused, because a chat cannot express it", () => {
  const keeps = "this model does not keep responses: set store to false";
  const rows: readonly (readonly [string, object, string])[] = [
    ["a store", { store: true }, keeps],
    [
      "a previous response",
      { previous_response_id: "resp_1" },
      "previous_response_id is not supported: this model does not keep responses, send the whole conversation as input",
    ],
    [
      "a conversation",
      { conversation: "conv_1" },
      "conversation is not supported by this model's provider",
    ],
    [
      "a stored prompt",
      { prompt: { id: "p" } },
      "prompt is not supported by this model's provider",
    ],
    ["two answers", { n: 2 }, "n is not supported by this model's provider"],
    [
      "an unknown truncation",
      { truncation: "x" },
      "truncation is not supported by this model's provider",
    ],
    ["no input", { input: undefined }, "input must be a string or an array of items"],
    [
      "a stored item",
      { input: [{ type: "item_reference", id: "msg_1" }] },
      "input[0] names a stored item, and this model does not keep responses: set store to false, and send the item itself",
    ],
    [
      "an id alone",
      { input: [{ id: "msg_1" }] },
      "input[0] names a stored item, and this model does not keep responses: set store to false, and send the item itself",
    ],
    [
      "work of the provider",
      { input: [{ type: "code_interpreter_call", id: "ci_1" }] },
      "input[0] of the type code_interpreter_call is not supported by this model's provider",
    ],
    [
      "an item that is no object",
      { input: [5] },
      "input[0] is not supported by this model's provider",
    ],
    [
      "an unknown role",
      { input: [{ role: "critic", content: "x" }] },
      "input[0].role is not supported by this model's provider",
    ],
    [
      "a stored image",
      { input: [{ role: "user", content: [{ type: "input_image", file_id: "file_1" }] }] },
      "input[0].content[0] without image_url is not supported by this model's provider",
    ],
    [
      "an unknown part",
      { input: [{ role: "user", content: [{ type: "input_video" }] }] },
      "input[0].content[0] of the type input_video is not supported by this model's provider",
    ],
    [
      "a call without an id",
      { input: [{ type: "function_call", name: "f", arguments: "{}" }] },
      "input[0] is not supported by this model's provider",
    ],
    [
      "a result without an id",
      { input: [{ type: "function_call_output", output: "x" }] },
      "input[0] without call_id is not supported by this model's provider",
    ],
    ...["file_search", "code_interpreter", "computer_use_preview", "image_generation", "mcp"].map(
      (type) =>
        [
          `a tool of the provider: ${type}`,
          { tools: [{ type: "function", name: "f" }, { type }] },
          `tools[1] of the type ${type} is not supported by this model's provider`,
        ] as const,
    ),
    [
      "a tool search of the provider",
      { tools: [{ type: "tool_search" }] },
      "tools[0] of the type tool_search is not supported by this model's provider",
    ],
    [
      "a forced web search",
      { tools: [{ type: "web_search" }], tool_choice: { type: "web_search" } },
      "tool_choice is not supported by this model's provider",
    ],
    [
      "a tool that must be called, without tools",
      { tools: [{ type: "web_search" }], tool_choice: "required" },
      "tool_choice is not supported by this model's provider",
    ],
    [
      "an unknown format",
      { text: { format: { type: "grammar" } } },
      "text.format is not supported by this model's provider",
    ],
    [
      "too many tools",
      { tools: Array.from({ length: 1025 }, (__, at) => ({ type: "function", name: `f${at}` })) },
      "tools must have at most 1024 items",
    ],
  ];
  test.each(rows)("%s", (_, fields, message) => {
    expect(() => chatOf(fields)).toThrow(new UnsupportedRequestError(message));
  });

  test("deep nesting", () => {
    let deep: unknown = 1;
    for (let level = 0; level < 2000; level += 1) deep = { deep };
    expect(() => chatOf({ metadata: deep })).toThrow(
      new UnsupportedRequestError("the request is nested too deep"),
    );
  });
});

describe("a chat that is sent as a response and translated back is the same", () => {
  const rows: readonly (readonly [string, object])[] = [
    [
      "a conversation",
      {
        messages: [
          { role: "system", content: "Be brief." },
          { role: "user", content: "hi" },
          { role: "assistant", content: "Hello." },
          {
            role: "user",
            content: [
              { type: "text", text: "look" },
              { type: "image_url", image_url: { url: pixel, detail: "auto" } },
              { type: "file", file: { filename: "a.pdf", file_data: "data:a/b;base64,AA==" } },
            ],
          },
        ],
      },
    ],
    [
      "calls and results",
      {
        messages: [
          { role: "user", content: "hi" },
          {
            role: "assistant",
            content: "I look.",
            tool_calls: [
              { id: "c1", type: "function", function: { name: "f", arguments: "{}" } },
              { id: "c2", type: "function", function: { name: "f", arguments: '{"a":1}' } },
            ],
          },
          { role: "tool", tool_call_id: "c1", content: "1" },
          { role: "tool", tool_call_id: "c2", content: "2" },
        ],
        tools: [{ type: "function", function: { name: "f", parameters: schema, strict: false } }],
        tool_choice: { type: "function", function: { name: "f" } },
        parallel_tool_calls: false,
      },
    ],
    [
      "a refusal",
      {
        messages: [
          { role: "user", content: "hi" },
          { role: "assistant", content: null, refusal: "No." },
        ],
      },
    ],
    [
      "settings",
      {
        messages: [{ role: "user", content: "hi" }],
        stream: true,
        max_completion_tokens: 9,
        temperature: 0.5,
        top_p: 0.5,
        reasoning_effort: "xhigh",
        reasoningSummary: "detail",
        verbosity: "low",
        logprobs: true,
        top_logprobs: 2,
        user: "u",
        prompt_cache_key: "k",
        response_format: { type: "json_schema", json_schema: { name: "n", schema, strict: true } },
        top_k: 7,
      },
    ],
  ];
  test.each(rows)("%s", (_, chat) => {
    const sent = sentText(openaiResponses.encode(callOf(JSON.stringify(chat))));
    const back = chatBodyOf(parseExactly(sent) as JsonFields);
    expect(back).toEqual({ ...chat, model: "model-of-the-provider" });
  });
});
