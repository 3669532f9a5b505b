import type { Json } from "./strictServer.ts";

type Messages = readonly Json[];

const user = { role: "user", content: "hello" };
const call = (id: string, name = "f") => ({
  id,
  type: "function",
  function: { name, arguments: "{}" },
});
const calls = (id: string) => ({ role: "assistant", content: null, tool_calls: [call(id)] });
const result = (id: string) => ({ role: "tool", tool_call_id: id, content: "21" });
const picture = { type: "image_url", image_url: { url: "data:image/png;base64,AA==" } };
const empty = { type: "object", properties: {} };
const fn = (more: Json = {}) => ({
  type: "function",
  function: { name: "f", parameters: empty, ...more },
});
const chat = (messages: Messages, more: Json = {}): Json => ({ model: "m", messages, ...more });
const longName = "f".repeat(65);

/** What a server takes and refuses on one of its paths. */
interface Rows {
  readonly path: string;
  readonly good: readonly Json[];
  /** What the server is asked, and a part of its refusal. */
  readonly bad: readonly (readonly [body: Json, words: string])[];
}

const openaiChat: Rows = {
  path: "/chat/completions",
  good: [
    chat([user]),
    chat([user, calls("call_1"), result("call_1"), user], {
      tools: [fn()],
      max_completion_tokens: 10,
    }),
    chat([{ role: "user", content: [picture] }], { temperature: 1 }),
  ],
  bad: [
    [
      chat([user], { max_tokens: 9 }),
      "'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead.",
    ],
    [chat([user], { temperature: 0.2 }), "'temperature' does not support 0.2"],
    [chat([user], { top_p: 0.5 }), "'top_p' is not supported"],
    [chat([user], { stop: ["END"] }), "'stop' is not supported"],
    [chat([user], { thinking: {} }), "Unknown parameter: 'thinking'."],
    [chat([user], { reasoning_effort: "minimal" }), "Unsupported value: 'minimal'"],
    [chat([user], { max_completion_tokens: 128_001 }), "is too large"],
    [
      chat([user], { tools: [fn({ name: longName })] }),
      "string too long. Expected a string with maximum length 64",
    ],
    [chat([user], { tools: [fn({ name: "a.b" })] }), "string does not match pattern"],
    [
      chat([user], { tools: [fn({ parameters: { type: "object" } })] }),
      "object schema missing properties",
    ],
    [chat([user], { tools: [fn({ parameters: {} })] }), `got 'type: \\"None\\"'`],
    [chat([user], { tools: [fn({ parameters: { ...empty, anyOf: [] } })] }), "at the top level"],
    [
      chat([user], { tools: [fn({ parameters: empty, strict: true })] }),
      "'additionalProperties' is required to be supplied and to be false",
    ],
    [
      chat([user, calls("a"), { ...result("a"), content: [picture] }]),
      "Image URLs are only allowed for messages with role 'user'",
    ],
    [chat([user, result("a")]), "must be a response to a preceeding message with 'tool_calls'"],
    [chat([user, calls("a"), user]), "did not have response messages: a"],
    [chat([user, calls("a")]), "did not have response messages: a"],
    [chat([{ role: "robot", content: "x" }]), "Invalid value: 'robot'"],
  ],
};

const responses = (input: unknown, more: Json = {}): Json => ({ model: "m", input, ...more });
const responsesFn = (more: Json = {}) => ({
  type: "function",
  name: "f",
  parameters: empty,
  ...more,
});
const functionCall = { type: "function_call", call_id: "a", name: "f", arguments: "{}" };
const functionResult = { type: "function_call_output", call_id: "a", output: "21" };

const openaiResponses: Rows = {
  path: "/responses",
  good: [
    responses("hello"),
    responses([user, functionCall, functionResult], {
      tools: [responsesFn()],
      reasoning: { effort: "high" },
    }),
  ],
  bad: [
    [responses("hello", { stop: ["END"] }), "Unknown parameter: 'stop'."],
    [responses("hello", { temperature: 0.2 }), "'temperature' is not supported"],
    [responses("hello", { reasoning: { effort: "minimal" } }), "Unsupported value: 'minimal'"],
    [responses("hello", { tools: [responsesFn({ name: longName })] }), "string too long"],
    [
      responses("hello", { tools: [responsesFn({ parameters: { type: "object" } })] }),
      "missing properties",
    ],
    [
      responses("hello", { tools: [{ type: "advisor_20260301" }] }),
      "Invalid value: 'advisor_20260301'",
    ],
    [responses([functionResult]), "No tool call found for function call output with call_id a."],
    [responses([functionCall]), "No tool output found for function call a."],
    [
      responses([{ role: "assistant", content: [{ type: "input_text", text: "x" }] }]),
      "Supported values are: 'output_text'",
    ],
    [responses([{ type: "reasoning", id: "rs_1", summary: [] }]), "Item with id 'rs_1' not found"],
    [
      responses([{ type: "reasoning", id: "rs_1", summary: [], encrypted_content: "x" }]),
      "could not be verified",
    ],
    [responses([{ ...functionCall, id: "call_1" }]), "Expected an ID that begins with 'fc'"],
  ],
};

const messages = (list: Messages, more: Json = {}): Json => ({
  model: "m",
  max_tokens: 10,
  messages: list,
  ...more,
});
const use = (id = "toolu_1") => ({
  role: "assistant",
  content: [{ type: "tool_use", id, name: "f", input: {} }],
});
const used = { type: "tool_result", tool_use_id: "toolu_1", content: "21" };
const text = (value: string, more: Json = {}) => ({ type: "text", text: value, ...more });
const says = (...content: readonly Json[]) => ({ role: "user", content });
const tool = (more: Json = {}) => ({ name: "f", input_schema: empty, ...more });
const marked = text("x", { cache_control: { type: "ephemeral" } });
const asks = (schema: Json) => ({ output_config: { format: { type: "json_schema", schema } } });
const closed = { type: "object", additionalProperties: false };

const anthropic: Rows = {
  path: "/messages",
  good: [
    messages([user]),
    messages([user, use(), says(used, text("go on"))], {
      tools: [tool()],
      system: [marked],
      thinking: { type: "adaptive" },
    }),
    messages([user], asks({ ...closed, properties: { a: { type: "string" } } })),
  ],
  bad: [
    [{ messages: [user] }, "max_tokens: Field required"],
    [
      messages([user], { max_tokens: 200_000 }),
      "which is the maximum allowed number of output tokens",
    ],
    [messages([user], { thread: {} }), "thread: Extra inputs are not permitted"],
    [
      messages([user], { context_management: {} }),
      "context_management: Extra inputs are not permitted",
    ],
    [
      messages([user], { stop_sequences: ["\n"] }),
      "each stop sequence must contain non-whitespace",
    ],
    [messages([says(text(""))]), "text content blocks must be non-empty"],
    [messages([says(text(" "))]), "text content blocks must contain non-whitespace text"],
    [
      messages([says(marked, marked, marked, marked, marked)]),
      "A maximum of 4 blocks with cache_control may be provided. Found 5.",
    ],
    [
      messages([user, use(), user]),
      "`tool_use` ids were found without `tool_result` blocks immediately after: toolu_1",
    ],
    [
      messages([user, use(), says(text("first"), used)]),
      "without `tool_result` blocks immediately after",
    ],
    [messages([user, says(used)]), "unexpected `tool_use_id` found"],
    [
      messages([user, use("a.b"), says({ ...used, tool_use_id: "a.b" })]),
      "tool_use.id: String should match pattern",
    ],
    [
      messages([user, { role: "assistant", content: "x" }]),
      "does not support assistant message prefill",
    ],
    [messages([{ role: "system", content: "x" }, user]), "role"],
    [
      messages([user], { tools: [tool({ input_schema: {} })] }),
      "input_schema.type: Field required",
    ],
    [
      messages([user], { tools: [tool({ input_schema: { ...empty, anyOf: [] } })] }),
      "does not support oneOf, allOf, or anyOf",
    ],
    [messages([user], { tools: [tool({ name: "a.b" })] }), "name: String should match pattern"],
    [messages([user], { tools: [tool(), tool()] }), "Tool names must be unique"],
    [
      messages([user], { tools: [tool({ type: "advisor" })] }),
      "Input tag 'advisor' found using 'type'",
    ],
    [
      messages([user], { tools: [tool({ parameters: {} })] }),
      "parameters: Extra inputs are not permitted",
    ],
    [
      messages([user], asks({ type: "object" })),
      "'additionalProperties' must be explicitly set to false",
    ],
    [
      messages([user], asks({ ...closed, properties: { a: { type: "integer", minimum: 1 } } })),
      "property 'minimum' is not supported",
    ],
    [
      messages([user], {
        tools: [tool()],
        thinking: { type: "adaptive" },
        tool_choice: { type: "any" },
      }),
      "Thinking may not be enabled when tool_choice forces tool use.",
    ],
    [messages([user], { temperature: 2 }), "temperature"],
    [
      messages([
        says({ type: "image", source: { type: "base64", media_type: "image/jpg", data: "" } }),
      ]),
      "image.source.base64.media_type",
    ],
    [
      messages([user, use(), says({ ...used, content: [marked] })]),
      "cache_control may not be specified within `tool_result.content`",
    ],
  ],
};

const contents = (list: readonly Json[], more: Json = {}): Json => ({ contents: list, ...more });
const asked = { role: "user", parts: [{ text: "hello" }] };
const signed = { thoughtSignature: "skip_thought_signature_validator" };
const called = { role: "model", parts: [{ functionCall: { name: "f", args: {} }, ...signed }] };
const returned = { functionResponse: { name: "f", response: {} } };
const declared = (more: Json) => ({ tools: [{ functionDeclarations: [{ name: "f", ...more }] }] });

const gemini: Rows = {
  path: "/models/m:generateContent",
  good: [
    contents([asked]),
    contents(
      [asked, called, { role: "user", parts: [returned, { text: "go on" }] }],
      declared({ parametersJsonSchema: empty }),
    ),
  ],
  bad: [
    [contents([]), "contents is not specified"],
    [contents([asked], { thinking: {} }), `Unknown name \\"thinking\\"`],
    [contents([{ role: "user", parts: [] }]), "contents.parts must not be empty"],
    [
      contents([{ role: "assistant", parts: [{ text: "x" }] }]),
      "Please use a valid role: user, model.",
    ],
    [
      contents([{ role: "user", parts: [{ text: "x", inlineData: {} }] }]),
      "required oneof field 'data'",
    ],
    [
      contents([asked, called]),
      "number of function response parts is equal to the number of function call parts",
    ],
    [contents([asked, called, asked]), "number of function response parts is equal"],
    [contents([called]), "function call turn comes immediately after a user turn"],
    [contents([asked], declared({ name: "1f" })), "Invalid function name"],
    [
      contents([asked], declared({ parameters: { ...empty, $schema: "x" } })),
      `Unknown name \\"$schema\\"`,
    ],
    [
      contents([asked], { generationConfig: { maxOutputTokens: 100_000 } }),
      "maxOutputTokens value of 100000",
    ],
    [
      contents([asked], { generationConfig: { stopSequences: ["a", "b", "c", "d", "e", "f"] } }),
      "stop sequences",
    ],
    [
      contents([{ role: "user", parts: [{ inlineData: { mimeType: "image/jpg", data: "" } }] }]),
      "Unsupported MIME type: image/jpg",
    ],
  ],
};

const nine = "Call00001";
const mistral: Rows = {
  path: "/chat/completions",
  good: [
    chat([
      { role: "system", content: "x" },
      user,
      calls(nine),
      result(nine),
      { role: "assistant", content: "x" },
      user,
    ]),
    chat([user, user, { role: "assistant", content: "x", prefix: true }]),
  ],
  bad: [
    [chat([user, calls(nine), result(nine), user]), "Unexpected role 'user' after role 'tool'"],
    [chat([user, result(nine)]), "Unexpected role 'tool' after role 'user'"],
    [
      chat([{ role: "system", content: "x" }, { role: "system", content: "x" }, user]),
      "Unexpected role 'system' after role 'system'",
    ],
    [
      chat([user, { role: "assistant", content: "x" }]),
      "Expected last role User or Tool (or Assistant with prefix True)",
    ],
    [
      chat([user, calls("call_1"), result("call_1")]),
      "Tool call id was call_1 but must be a-z, A-Z, 0-9, with a length of 9.",
    ],
    [
      chat([user, calls(nine), { role: "assistant", content: "x" }, user]),
      "Not the same number of function calls and responses",
    ],
    [
      chat([user], { prompt_cache_key: "x" }),
      `"loc":["body","prompt_cache_key"],"msg":"Extra inputs are not permitted"`,
    ],
    [chat([user], { max_completion_tokens: 9 }), "Extra inputs are not permitted"],
    [chat([{ ...user, name: "x" }]), `"loc":["body","messages",0,"user","name"]`],
    [chat([{ role: "developer", content: "x" }, user]), "Input tag 'developer'"],
    [
      chat([user, { role: "assistant", content: "x", reasoning_content: "y" }, user]),
      `"assistant","reasoning_content"]`,
    ],
    [
      chat([user, calls(nine), { ...result(nine), content: [picture] }]),
      "Input should be <ChunkTypes.text: 'text'>",
    ],
    [chat([user], { tools: [fn({ name: longName })] }), "with a maximum length of 64"],
    [
      chat([user, { role: "assistant", content: "" }, user]),
      "must have either content or tool_calls",
    ],
  ],
};

const groq: Rows = {
  path: "/chat/completions",
  good: [chat([user, calls("a"), result("a"), user], { tools: [fn()], user: "u" })],
  bad: [
    [chat([user], { prompt_cache_key: "x" }), "property 'prompt_cache_key' is unsupported"],
    [
      chat([user, { role: "assistant", content: "x", reasoning_content: "y" }]),
      "'messages.1' : for 'role:assistant' the following must be satisfied[('messages.1' : property 'reasoning_content' is unsupported)]",
    ],
    [
      chat([user, calls("a"), { ...result("a"), content: [picture] }]),
      "'messages.2' : for 'role:tool'",
    ],
    [chat([user], { reasoning_effort: "xhigh" }), "`reasoning_effort` must be one of"],
    [chat([user], { tools: [fn({ parameters: {} })] }), "`type` must be"],
    [
      chat([{ role: "user", content: [text("x", { cache_control: {} })] }]),
      "property 'cache_control' is unsupported",
    ],
    [
      chat([user], { tools: [fn()], response_format: { type: "json_object" } }),
      "json mode cannot be combined",
    ],
  ],
};

const system = { role: "system", content: "x" };
const qwen: Rows = {
  path: "/chat/completions",
  good: [chat([system, user, calls("a"), result("a"), user]), chat([user])],
  bad: [
    [chat([user, system]), "System message must be at the beginning."],
    [chat([system, system, user]), "System message must be at the beginning."],
    [chat([system]), "No user query found in messages."],
    [chat([{ role: "developer", content: "x" }, user]), "Unexpected message role."],
    [
      chat([user, { role: "assistant", tool_calls: [{ function: { name: "f", arguments: "" } }] }]),
      "item pairs from a mapping",
    ],
    [chat([user], { tool_choice: "auto" }), "`tools` must be set"],
  ],
};
const turns: Rows = {
  path: "/chat/completions",
  good: [chat([system, user, calls("a"), result("a"), { role: "assistant", content: "x" }, user])],
  bad: [
    [chat([user, user]), "roles must alternate"],
    [chat([user, calls("a"), result("a"), user]), "roles must alternate"],
    [chat([user, system]), "Only user, assistant and tool roles"],
  ],
};

/** By the name of the server. */
export const rows: Readonly<Record<string, readonly Rows[]>> = {
  "OpenAI, responses = true": [openaiChat, openaiResponses],
  "Anthropic, claude-sonnet-4-6": [anthropic],
  "Gemini, gemini-2.5-flash": [gemini],
  Mistral: [mistral],
  Groq: [groq],
  "Qwen 3.5 on vLLM": [qwen],
  "Qwen 3.5 on llama.cpp": [qwen],
  "Ministral 3 on llama.cpp": [turns],
};

/** What only a model of a family refuses. */
export const ofModels: readonly (readonly [
  server: string,
  path: string,
  body: Json,
  words: string,
])[] = [
  [
    "OpenAI, responses = true",
    "/chat/completions",
    chat([user], { tools: [fn()], reasoning_effort: "low" }),
    "use /v1/responses or set reasoning_effort to 'none'",
  ],
  [
    "Anthropic, claude-opus-5",
    "/messages",
    messages([user], { temperature: 0.5 }),
    "`temperature` is deprecated",
  ],
  [
    "Anthropic, claude-opus-5",
    "/messages",
    messages([user], { max_tokens: 4000, thinking: { type: "enabled", budget_tokens: 1024 } }),
    "is not supported for this model",
  ],
  ["Anthropic, claude-sonnet-4-6", "/messages", messages([user, system]), "Unexpected role"],
  [
    "Anthropic, claude-sonnet-4-6",
    "/messages",
    messages([user], { thinking: { type: "enabled", budget_tokens: 1024 } }),
    "`max_tokens` must be greater than `thinking.budget_tokens`",
  ],
  [
    "Gemini, gemini-3-pro-preview",
    "/models/m:generateContent",
    contents([
      asked,
      { role: "model", parts: [{ functionCall: { name: "f", args: {} } }] },
      { role: "user", parts: [returned] },
    ]),
    "missing a thought_signature",
  ],
  [
    "Gemini, gemini-2.5-flash",
    "/models/m:generateContent",
    contents([asked], {
      ...declared({}),
      generationConfig: { responseMimeType: "application/json" },
    }),
    "'application/json' is unsupported",
  ],
];
