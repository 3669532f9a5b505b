import type { Asked } from "./dialect.ts";

/** A body of POST /v1/chat/completions beside its model, and what the provider must be asked. */
export interface RequestCase {
  readonly body: Readonly<Record<string, unknown>>;
  readonly asks: Asked;
}

const hello = message("user", "hello");
const saysHello = [{ by: "user", text: "hello" }] as const;
const picture = { mediaType: "image/png", base64: "iVBORw0KGgo=" };
const parameters = { type: "object", properties: { city: { type: "string" } }, required: ["city"] };
const weather = {
  type: "function",
  function: { name: "weather", description: "Looks out of the window", parameters },
};
const clock = { type: "function", function: { name: "clock" } };
const askedTools = [
  { name: "weather", description: "Looks out of the window", parameters },
  { name: "clock" },
];
const tools = [weather, clock];
const schema = {
  type: "object",
  properties: { answer: { type: "string" } },
  required: ["answer"],
  additionalProperties: false,
};

const inParis = toolCall("call_1", "weather", { city: "Paris" });
const atNoon = toolCall("call_2", "clock", {});

function message(role: string, content: unknown) {
  return { role, content };
}

function result(id: string, content: unknown): object {
  return { role: "tool", tool_call_id: id, content };
}

function toolCall(id: string, name: string, given: object): object {
  return { id, type: "function", function: { name, arguments: JSON.stringify(given) } };
}

/** Conversations: the messages, and what is said in them. Blank texts say nothing. */
const conversations: Readonly<Record<string, readonly [messages: object[], asks: Asked]>> = {
  "one message": [[hello], { conversation: saysHello }],
  "several instructions": [
    [message("system", "Be brief."), message("developer", "Be kind."), hello],
    { system: ["Be brief.", "Be kind."], conversation: saysHello },
  ],
  "instructions in the middle": [
    [
      hello,
      message("assistant", "Hi."),
      message("system", [{ type: "text", text: "Now in French." }]),
      message("user", "again"),
    ],
    {
      system: ["Now in French."],
      conversation: [...saysHello, { by: "assistant", text: "Hi." }, { by: "user", text: "again" }],
    },
  ],
  "several messages of one speaker": [
    [
      hello,
      message("user", "are you there"),
      message("assistant", "Yes."),
      message("assistant", "I am."),
      message("user", "good"),
    ],
    {
      conversation: [
        ...saysHello,
        { by: "user", text: "are you there" },
        { by: "assistant", text: "Yes." },
        { by: "assistant", text: "I am." },
        { by: "user", text: "good" },
      ],
    },
  ],
  "blank texts": [
    [
      message("system", ""),
      message("user", " \n"),
      message("assistant", ""),
      message("user", [
        { type: "text", text: "" },
        { type: "text", text: "hello" },
      ]),
    ],
    { conversation: saysHello },
  ],
  "a picture in the request": [
    [
      message("user", [
        { type: "text", text: "What is this?" },
        { type: "image_url", image_url: { url: `data:image/png;base64,${picture.base64}` } },
      ]),
    ],
    {
      conversation: [
        { by: "user", text: "What is this?" },
        { by: "user", image: picture },
      ],
    },
  ],
  "a picture at an address": [
    [message("user", [{ type: "image_url", image_url: { url: "https://a.example/b.png" } }])],
    { conversation: [{ by: "user", image: { url: "https://a.example/b.png" } }] },
  ],
};

/** Conversations in which tools are called. */
const loops: typeof conversations = {
  "calls and their results": [
    [
      hello,
      { ...message("assistant", null), tool_calls: [inParis, atNoon] },
      result("call_1", "sunny"),
      result("call_2", [{ type: "text", text: "noon" }]),
      message("user", "so?"),
    ],
    {
      conversation: [
        ...saysHello,
        { by: "assistant", call: { id: "call_1", name: "weather", arguments: { city: "Paris" } } },
        { by: "assistant", call: { id: "call_2", name: "clock", arguments: {} } },
        { by: "tool", answers: "call_1", text: "sunny" },
        { by: "tool", answers: "call_2", text: "noon" },
        { by: "user", text: "so?" },
      ],
    },
  ],
  "a text before a call, and a call after its result": [
    [
      hello,
      { ...message("assistant", "I look."), tool_calls: [inParis] },
      result("call_1", "sunny"),
      { role: "assistant", tool_calls: [atNoon] },
      result("call_2", "noon"),
    ],
    {
      conversation: [
        ...saysHello,
        { by: "assistant", text: "I look." },
        { by: "assistant", call: { id: "call_1", name: "weather", arguments: { city: "Paris" } } },
        { by: "tool", answers: "call_1", text: "sunny" },
        { by: "assistant", call: { id: "call_2", name: "clock", arguments: {} } },
        { by: "tool", answers: "call_2", text: "noon" },
      ],
    },
  ],
};

/** Fields beside one message. */
const fields: Readonly<Record<string, readonly [given: object, asks: Asked]>> = {
  "a stream": [{ stream: true }, { stream: true }],
  ...Object.fromEntries(
    (["auto", "none", "required"] as const).map((choice) => [
      `tools, of which the choice is ${choice}`,
      [
        { tools, tool_choice: choice },
        { tools: askedTools, toolChoice: choice },
      ],
    ]),
  ),
  "one tool that must be called": [
    { tools, tool_choice: { type: "function", function: { name: "clock" } } },
    { tools: askedTools, toolChoice: { name: "clock" } },
  ],
  "one call at a time": [
    { tools, parallel_tool_calls: false },
    { tools: askedTools, parallelToolCalls: false },
  ],
  ...Object.fromEntries(
    ["max_tokens", "max_completion_tokens", "max_output_tokens"].map((name) => [
      `a bound as ${name}`,
      [{ [name]: 77 }, { bound: 77 }],
    ]),
  ),
  "a temperature and a nucleus": [
    { temperature: 0.7, top_p: 0.9 },
    { temperature: 0.7, topP: 0.9 },
  ],
  "fields that are null": [{ temperature: null, stop: null, tools: null, tool_choice: null }, {}],
  "one stop sequence": [{ stop: "END" }, { stop: ["END"] }],
  "stop sequences": [{ stop: ["END", "\n\nHuman:"] }, { stop: ["END", "\n\nHuman:"] }],
  ...Object.fromEntries(
    ["low", "medium", "high", "xhigh"].map((effort) => [
      `${effort} effort`,
      [
        { reasoning_effort: effort, max_tokens: 64_000 },
        { effort, bound: 64_000 },
      ],
    ]),
  ),
  "an answer in JSON": [{ response_format: { type: "json_object" } }, { format: "json" }],
  "an answer after a schema": [
    {
      response_format: {
        type: "json_schema",
        json_schema: { name: "reply", strict: true, schema },
      },
    },
    { format: { schema } },
  ],
  "a user": [{ user: "user-17" }, { user: "user-17" }],
  "two choices": [{ n: 2 }, {}],
};

/** Requests that every interface can be asked, but for what a dialect says it cannot. */
export const requests: Readonly<Record<string, RequestCase>> = Object.fromEntries([
  ...Object.entries(conversations).map(([name, [messages, asks]]) => [
    name,
    { body: { messages }, asks },
  ]),
  ...Object.entries(loops).map(([name, [messages, asks]]) => [
    name,
    { body: { messages, tools }, asks: { tools: askedTools, ...asks } },
  ]),
  ...Object.entries(fields).map(([name, [given, asks]]) => [
    name,
    { body: { messages: [hello], ...given }, asks: { conversation: saysHello, ...asks } },
  ]),
]);
