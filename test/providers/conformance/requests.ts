import type { Asked } from "./dialect.ts";

/** A body of POST /v1/chat/completions beside its model, and what the provider must be asked. */
export interface RequestCase {
  readonly body: Readonly<Record<string, unknown>>;
  readonly asks: Asked;
}

const hello = { role: "user", content: "hello" };
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
const tools = { messages: [hello], tools: [weather, clock] };
const schema = {
  type: "object",
  properties: { answer: { type: "string" } },
  required: ["answer"],
  additionalProperties: false,
};

function toolCall(id: string, name: string, given: object): object {
  return { id, type: "function", function: { name, arguments: JSON.stringify(given) } };
}

/** Requests that every interface can be asked, but for what a dialect says it cannot. Blank texts say nothing. */
export const requests: Readonly<Record<string, RequestCase>> = {
  "one message": { body: { messages: [hello] }, asks: { conversation: saysHello } },
  "a stream": {
    body: { messages: [hello], stream: true },
    asks: { conversation: saysHello, stream: true },
  },
  "several instructions": {
    body: {
      messages: [
        { role: "system", content: "Be brief." },
        { role: "developer", content: "Be kind." },
        hello,
      ],
    },
    asks: { system: ["Be brief.", "Be kind."], conversation: saysHello },
  },
  "instructions in the middle": {
    body: {
      messages: [
        hello,
        { role: "assistant", content: "Hi." },
        { role: "system", content: [{ type: "text", text: "Now in French." }] },
        { role: "user", content: "again" },
      ],
    },
    asks: {
      system: ["Now in French."],
      conversation: [...saysHello, { by: "assistant", text: "Hi." }, { by: "user", text: "again" }],
    },
  },
  "several messages of one speaker": {
    body: {
      messages: [
        hello,
        { role: "user", content: "are you there" },
        { role: "assistant", content: "Yes." },
        { role: "assistant", content: "I am." },
        { role: "user", content: "good" },
      ],
    },
    asks: {
      conversation: [
        ...saysHello,
        { by: "user", text: "are you there" },
        { by: "assistant", text: "Yes." },
        { by: "assistant", text: "I am." },
        { by: "user", text: "good" },
      ],
    },
  },
  "blank texts": {
    body: {
      messages: [
        { role: "system", content: "" },
        { role: "user", content: " \n" },
        { role: "assistant", content: "" },
        {
          role: "user",
          content: [
            { type: "text", text: "" },
            { type: "text", text: "hello" },
          ],
        },
      ],
    },
    asks: { conversation: saysHello },
  },
  "a picture in the request": {
    body: {
      messages: [
        {
          role: "user",
          content: [
            { type: "text", text: "What is this?" },
            { type: "image_url", image_url: { url: `data:image/png;base64,${picture.base64}` } },
          ],
        },
      ],
    },
    asks: {
      conversation: [
        { by: "user", text: "What is this?" },
        { by: "user", image: picture },
      ],
    },
  },
  "a picture at an address": {
    body: {
      messages: [
        {
          role: "user",
          content: [{ type: "image_url", image_url: { url: "https://a.example/b.png" } }],
        },
      ],
    },
    asks: { conversation: [{ by: "user", image: { url: "https://a.example/b.png" } }] },
  },
  "calls and their results": {
    body: {
      ...tools,
      messages: [
        hello,
        {
          role: "assistant",
          content: null,
          tool_calls: [
            toolCall("call_1", "weather", { city: "Paris" }),
            toolCall("call_2", "clock", {}),
          ],
        },
        { role: "tool", tool_call_id: "call_1", content: "sunny" },
        { role: "tool", tool_call_id: "call_2", content: [{ type: "text", text: "noon" }] },
        { role: "user", content: "so?" },
      ],
    },
    asks: {
      tools: askedTools,
      conversation: [
        ...saysHello,
        { by: "assistant", call: { id: "call_1", name: "weather", arguments: { city: "Paris" } } },
        { by: "assistant", call: { id: "call_2", name: "clock", arguments: {} } },
        { by: "tool", answers: "call_1", text: "sunny" },
        { by: "tool", answers: "call_2", text: "noon" },
        { by: "user", text: "so?" },
      ],
    },
  },
  "a text before a call, and a call after its result": {
    body: {
      ...tools,
      messages: [
        hello,
        {
          role: "assistant",
          content: "I look.",
          tool_calls: [toolCall("call_1", "weather", { city: "Paris" })],
        },
        { role: "tool", tool_call_id: "call_1", content: "sunny" },
        { role: "assistant", tool_calls: [toolCall("call_2", "clock", {})] },
        { role: "tool", tool_call_id: "call_2", content: "noon" },
      ],
    },
    asks: {
      tools: askedTools,
      conversation: [
        ...saysHello,
        { by: "assistant", text: "I look." },
        { by: "assistant", call: { id: "call_1", name: "weather", arguments: { city: "Paris" } } },
        { by: "tool", answers: "call_1", text: "sunny" },
        { by: "assistant", call: { id: "call_2", name: "clock", arguments: {} } },
        { by: "tool", answers: "call_2", text: "noon" },
      ],
    },
  },
  ...Object.fromEntries(
    (["auto", "none", "required"] as const).map((choice) => [
      `tools, of which the choice is ${choice}`,
      {
        body: { ...tools, tool_choice: choice },
        asks: { conversation: saysHello, tools: askedTools, toolChoice: choice },
      },
    ]),
  ),
  "one tool that must be called": {
    body: { ...tools, tool_choice: { type: "function", function: { name: "clock" } } },
    asks: { conversation: saysHello, tools: askedTools, toolChoice: { name: "clock" } },
  },
  "one call at a time": {
    body: { ...tools, parallel_tool_calls: false },
    asks: { conversation: saysHello, tools: askedTools, parallelToolCalls: false },
  },
  ...Object.fromEntries(
    ["max_tokens", "max_completion_tokens", "max_output_tokens"].map((name) => [
      `a bound as ${name}`,
      {
        body: { messages: [hello], [name]: 77 },
        asks: { conversation: saysHello, bound: 77 },
      },
    ]),
  ),
  "a temperature and a nucleus": {
    body: { messages: [hello], temperature: 0.7, top_p: 0.9 },
    asks: { conversation: saysHello, temperature: 0.7, topP: 0.9 },
  },
  "fields that are null": {
    body: { messages: [hello], temperature: null, stop: null, tools: null, tool_choice: null },
    asks: { conversation: saysHello },
  },
  "one stop sequence": {
    body: { messages: [hello], stop: "END" },
    asks: { conversation: saysHello, stop: ["END"] },
  },
  "stop sequences": {
    body: { messages: [hello], stop: ["END", "\n\nHuman:"] },
    asks: { conversation: saysHello, stop: ["END", "\n\nHuman:"] },
  },
  ...Object.fromEntries(
    ["low", "medium", "high", "xhigh"].map((effort) => [
      `${effort} effort`,
      {
        body: { messages: [hello], reasoning_effort: effort, max_tokens: 64_000 },
        asks: { conversation: saysHello, effort, bound: 64_000 },
      },
    ]),
  ),
  "an answer in JSON": {
    body: { messages: [hello], response_format: { type: "json_object" } },
    asks: { conversation: saysHello, format: "json" },
  },
  "an answer after a schema": {
    body: {
      messages: [hello],
      response_format: {
        type: "json_schema",
        json_schema: { name: "reply", strict: true, schema },
      },
    },
    asks: { conversation: saysHello, format: { schema } },
  },
  "a user": {
    body: { messages: [hello], user: "user-17" },
    asks: { conversation: saysHello, user: "user-17" },
  },
  "two choices": { body: { messages: [hello], n: 2 }, asks: { conversation: saysHello } },
};
