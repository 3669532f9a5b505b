import { describe, expect, test } from "bun:test";
import {
  array,
  assert as assertProperty,
  constantFrom,
  infiniteStream,
  nat,
  property,
  record,
  string,
  tuple,
} from "fast-check";
import OpenAI from "openai";
import type { FinishReason } from "../../../../src/contract/chat/finishReason.ts";
import type { ResponsesForm } from "../../../../src/gateway/translation/responses/chatToResponses.ts";
import type { JsonFields } from "../../../../src/lib/json.ts";
import { ANSWER_BYTES_MAX, ExcessiveAnswerError } from "../../../../src/providers/provider.ts";
import { billed, chunkOf, eventsIn, formFor, reported, streamed, whole } from "./reading.ts";

const encrypted = { include: ["reasoning.encrypted_content"] };
const callOf = (index: number, name: string, text: string): JsonFields => ({
  index,
  id: `c${index}`,
  type: "function",
  function: { name, arguments: text },
});
const moreOf = (index: number, text: string): JsonFields => ({
  index,
  function: { arguments: text },
});
const citation = { url: "https://example.com", title: "t", start_index: 0, end_index: 5 };
const token = { token: "Hel", logprob: -0.5, bytes: [72, 101, 108], top_logprobs: [] };

/** The settings of a request, the deltas of an answer, its end, and the items that the client gets. */
interface Case {
  readonly request?: object;
  readonly deltas: readonly JsonFields[];
  readonly finish?: FinishReason;
  readonly events: readonly string[];
  readonly output: readonly object[];
}

const textEvents = [
  "output_item.added",
  "content_part.added",
  "output_text.delta",
  "output_text.done",
  "content_part.done",
  "output_item.done",
];
const callEvents = [
  "output_item.added",
  "function_call_arguments.delta",
  "function_call_arguments.done",
  "output_item.done",
];
const summaryEvents = [
  "output_item.added",
  "reasoning_summary_part.added",
  "reasoning_summary_text.delta",
  "reasoning_summary_text.done",
  "reasoning_summary_part.done",
  "output_item.done",
];
const part = (text: string, more: object = {}) => ({
  type: "output_text",
  text,
  annotations: [],
  logprobs: [],
  ...more,
});
const messageOf = (at: number, content: readonly object[], status = "completed") => ({
  id: `msg_0123_${at}`,
  type: "message",
  status,
  role: "assistant",
  content,
});
const summaryOf = (at: number, text: string, more: object = {}) => ({
  id: `rs_0123_${at}`,
  type: "reasoning",
  summary: [{ type: "summary_text", text }],
  ...more,
});
const functionCall = (
  at: number,
  index: number,
  name: string,
  text: string,
  more: object = {},
) => ({
  id: `fc_0123_${at}`,
  type: "function_call",
  status: "completed",
  call_id: `c${index}`,
  name,
  arguments: text,
  ...more,
});

const cases: Readonly<Record<string, Case>> = {
  "a text": {
    deltas: [{ role: "assistant", content: "" }, { content: "Hello" }, {}],
    events: textEvents,
    output: [messageOf(0, [part("Hello")])],
  },
  "a text in the last chunk": {
    deltas: [{ content: "Hello" }],
    events: textEvents,
    output: [messageOf(0, [part("Hello")])],
  },
  nothing: { deltas: [{}], events: [], output: [] },
  "a text that the bound cut": {
    deltas: [{ content: "Hel" }, {}],
    finish: "length",
    events: textEvents,
    output: [messageOf(0, [part("Hel")], "incomplete")],
  },
  "reasoning that a filter cut": {
    deltas: [{ reasoning_content: "hm" }, {}],
    finish: "content_filter",
    events: summaryEvents,
    output: [summaryOf(0, "hm", { status: "incomplete" })],
  },
  "reasoning, a text and two calls": {
    deltas: [
      { reasoning: "hm" },
      { content: "I look." },
      { tool_calls: [callOf(0, "f", "")] },
      { tool_calls: [moreOf(0, '{"a":1}')] },
      { tool_calls: [callOf(1, "g", "{}")] },
      {},
    ],
    finish: "tool_calls",
    events: [
      ...summaryEvents,
      ...textEvents,
      "output_item.added",
      "function_call_arguments.delta",
      "output_item.added",
      "function_call_arguments.delta",
      "function_call_arguments.done",
      "output_item.done",
      "function_call_arguments.done",
      "output_item.done",
    ],
    output: [
      summaryOf(0, "hm"),
      messageOf(1, [part("I look.")]),
      functionCall(2, 0, "f", '{"a":1}'),
      functionCall(3, 1, "g", "{}"),
    ],
  },
  "a refusal": {
    deltas: [{ refusal: "No." }, {}],
    events: [
      "output_item.added",
      "content_part.added",
      "refusal.delta",
      "refusal.done",
      "content_part.done",
      "output_item.done",
    ],
    output: [messageOf(0, [{ type: "refusal", refusal: "No." }])],
  },
  "citations and token probabilities": {
    request: { include: ["message.output_text.logprobs"] },
    deltas: [
      { content: "Hello", logprobs: { content: [token] } },
      { annotations: [{ type: "url_citation", url_citation: citation }] },
    ],
    events: [...textEvents.slice(0, 3), "output_text.annotation.added", ...textEvents.slice(3)],
    output: [
      messageOf(0, [
        part("Hello", { annotations: [{ type: "url_citation", ...citation }], logprobs: [token] }),
      ]),
    ],
  },
  "an image": {
    deltas: [{ images: [{ image_url: { url: "data:image/png;base64,AAAA" } }] }, {}],
    events: ["output_item.added", "output_item.done"],
    output: [
      { id: "ig_0123_0", type: "image_generation_call", status: "completed", result: "AAAA" },
    ],
  },
  "a call of a tool with free text": {
    request: { tools: [{ type: "custom", name: "patch" }] },
    deltas: [
      { tool_calls: [callOf(0, "patch", '{"inp')] },
      { tool_calls: [moreOf(0, 'ut":"a\\n"}')] },
    ],
    finish: "tool_calls",
    events: [
      "output_item.added",
      "custom_tool_call_input.delta",
      "custom_tool_call_input.done",
      "output_item.done",
    ],
    output: [
      {
        id: "ctc_0123_0",
        type: "custom_tool_call",
        status: "completed",
        call_id: "c0",
        name: "patch",
        input: "a\n",
      },
    ],
  },
  "free text without the argument's name": {
    request: { tools: [{ type: "custom", name: "patch" }] },
    deltas: [{ tool_calls: [callOf(0, "patch", "*** Begin Patch")] }],
    events: [
      "output_item.added",
      "custom_tool_call_input.delta",
      "custom_tool_call_input.done",
      "output_item.done",
    ],
    output: [
      {
        id: "ctc_0123_0",
        type: "custom_tool_call",
        status: "completed",
        call_id: "c0",
        name: "patch",
        input: "*** Begin Patch",
      },
    ],
  },
  "a call of a tool in a namespace": {
    request: {
      tools: [{ type: "namespace", name: "ns", tools: [{ type: "function", name: "f" }] }],
    },
    deltas: [{ tool_calls: [callOf(0, "ns__f", "{}")] }],
    events: callEvents,
    output: [functionCall(0, 0, "f", "{}", { namespace: "ns" })],
  },
  "calls of the local shell and of a tool search": {
    request: { tools: [{ type: "local_shell" }, { type: "tool_search", execution: "client" }] },
    deltas: [
      {
        tool_calls: [
          callOf(0, "local_shell", '{"command":["ls","-a"],"timeout_ms":5}'),
          callOf(1, "tool_search", '{"query":"q"}'),
          callOf(2, "local_shell", "no JSON"),
        ],
      },
    ],
    events: [
      "output_item.added",
      "output_item.added",
      "output_item.added",
      "output_item.done",
      "output_item.done",
      "output_item.done",
    ],
    output: [
      {
        id: "lsh_0123_0",
        type: "local_shell_call",
        status: "completed",
        call_id: "c0",
        action: {
          type: "exec",
          command: ["ls", "-a"],
          env: {},
          timeout_ms: 5,
          working_directory: null,
          user: null,
        },
      },
      {
        id: "tsc_0123_1",
        type: "tool_search_call",
        status: "completed",
        call_id: "c1",
        execution: "client",
        arguments: { query: "q" },
      },
      {
        id: "lsh_0123_2",
        type: "local_shell_call",
        status: "completed",
        call_id: "c2",
        action: {
          type: "exec",
          command: [],
          env: {},
          timeout_ms: null,
          working_directory: null,
          user: null,
        },
      },
    ],
  },
  "reasoning that the provider needs back": {
    request: encrypted,
    deltas: [
      { reasoning_content: "hm" },
      { content: "Yes." },
      { thinking_blocks: [{ type: "thinking", thinking: "hm", signature: "s" }] },
    ],
    events: [...summaryEvents, ...textEvents, "output_item.added", "output_item.done"],
    output: [
      summaryOf(0, "hm", { encrypted_content: "tollgate-1:e30" }),
      messageOf(1, [part("Yes.")]),
      {
        id: "rs_0123_2",
        type: "reasoning",
        summary: [],
        encrypted_content: `tollgate-1:${Buffer.from(
          '{"thinking_blocks":[{"type":"thinking","thinking":"hm","signature":"s"}]}',
        ).toString("base64url")}`,
      },
    ],
  },
  "reasoning that nobody asked to send back": {
    deltas: [{ content: "Yes." }, { thinking_blocks: [{ type: "thinking" }] }],
    events: textEvents,
    output: [messageOf(0, [part("Yes.")])],
  },
};

/** The deltas as one message, as a provider says them in JSON. */
function messageOfDeltas(deltas: readonly JsonFields[]): JsonFields {
  const message: Record<string, unknown> = {};
  const calls = new Map<unknown, Record<string, unknown>>();
  for (const [name, value] of deltas.flatMap((delta) => Object.entries(delta))) {
    if (name === "tool_calls") {
      for (const { index, ...call } of value as (JsonFields & { function: JsonFields })[]) {
        const known = calls.get(index);
        if (known === undefined) calls.set(index, { ...call });
        else {
          const { name: called, arguments: before } = known["function"] as JsonFields;
          const text = String(before) + String(call.function["arguments"]);
          known["function"] = { name: called, arguments: text };
        }
      }
    } else if (typeof value === "string") message[name] = ((message[name] as string) ?? "") + value;
    else message[name] = value;
  }
  return { ...message, ...(calls.size > 0 && { tool_calls: [...calls.values()] }) };
}

function finalResponse(bytes: string): unknown {
  return eventsIn(bytes).at(-1)?.["response"];
}

describe.each(Object.entries(cases))(
  "%s",
  (_, { request, deltas, finish = "stop", events, output }) => {
    const bytes = streamed(formFor(request), deltas, finish);
    const isWhole = finish === "stop" || finish === "tool_calls";
    const status = isWhole ? "completed" : "incomplete";

    test("is streamed in the order of the interface", () => {
      const found = eventsIn(bytes);
      expect(found.map(({ type }) => type.replace("response.", ""))).toEqual([
        "created",
        "in_progress",
        ...events,
        status,
      ]);
      expect(found.map((event) => event.sequence_number)).toEqual(found.map((__, at) => at));
    });

    test("ends with the whole response", () => {
      expect(finalResponse(bytes)).toMatchObject({ id: "resp_0123", status, output });
      expect(finalResponse(bytes)).toHaveProperty("output.length", output.length);
    });

    test("is the same in JSON", () => {
      const response = whole(formFor(request), messageOfDeltas(deltas), finish);
      expect(response).toEqual(finalResponse(bytes) as typeof response);
    });

    test("is what the openai client puts together from its events", async () => {
      expect(await accumulated(bytes)).toMatchObject({ status, output });
    });
  },
);

/** The response that the official client reads from a stream. */
async function accumulated(bytes: string): Promise<unknown> {
  const server = Bun.serve({
    port: 0,
    hostname: "127.0.0.1",
    fetch: () => new Response(bytes, { headers: { "content-type": "text/event-stream" } }),
  });
  try {
    const client = new OpenAI({
      baseURL: `http://127.0.0.1:${server.port}`,
      apiKey: "k",
      maxRetries: 0,
    });
    return await client.responses.stream({ model: "small", input: "hi" }).finalResponse();
  } finally {
    await server.stop(true);
  }
}

test("the response repeats short settings, and neither instructions nor tools", () => {
  const response = whole(
    formFor({
      instructions: "Be brief.",
      tools: [{ type: "function", name: "f" }],
      tool_choice: "required",
      parallel_tool_calls: false,
      max_output_tokens: 9,
      temperature: 0.5,
      metadata: { a: "b" },
      reasoning: { effort: "low" },
      text: { verbosity: "low" },
      prompt_cache_key: "k",
      user: "u".repeat(20_000),
    }),
    { content: "Hi" },
  );
  expect(response).toEqual({
    id: "resp_0123",
    object: "response",
    created_at: 1_700_000_000,
    model: "small",
    status: "completed",
    error: null,
    incomplete_details: null,
    background: false,
    instructions: null,
    max_output_tokens: 9,
    max_tool_calls: null,
    metadata: { a: "b" },
    output: [messageOf(0, [part("Hi")])],
    parallel_tool_calls: false,
    previous_response_id: null,
    prompt_cache_key: "k",
    reasoning: { effort: "low", summary: null },
    safety_identifier: null,
    service_tier: "default",
    store: false,
    temperature: 0.5,
    text: { format: { type: "text" }, verbosity: "low" },
    tool_choice: "required",
    tools: [],
    top_logprobs: 0,
    top_p: null,
    truncation: "disabled",
    user: null,
    usage: {
      input_tokens: 20,
      input_tokens_details: { cached_tokens: 5, cache_write_tokens: 3 },
      output_tokens: 7,
      output_tokens_details: { reasoning_tokens: 4 },
      total_tokens: 27,
    },
  });
});

test.each<[FinishReason, object | null]>([
  ["stop", null],
  ["tool_calls", null],
  ["length", { reason: "max_output_tokens" }],
  ["content_filter", { reason: "content_filter" }],
])("the finish reason %s is told", (finish, details) => {
  expect(whole(formFor(), { content: "x" }, finish)).toHaveProperty("incomplete_details", details);
});

test("only the first choice is shown", () => {
  const form = formFor();
  const first = chunkOf({ content: "a" }, null);
  const second = {
    ...first,
    choices: [{ index: 1, delta: { content: "b" }, finish_reason: null }],
  };
  const bytes = form.chunk(first) + form.chunk(second) + form.ending([], billed, reported);
  expect(finalResponse(bytes)).toHaveProperty("output", [messageOf(0, [part("a")])]);
});

describe("a stream that fails", () => {
  const error = { type: "provider_error", message: "upstream provider failure" } as const;
  test.each<[string, (form: ResponsesForm) => unknown, number]>([
    ["before any event", () => undefined, 0],
    ["after a text", (form) => form.chunk(chunkOf({ content: "a" }, null)), 5],
  ])("ends with an error that has the next number: %s", (_, begin, sequence) => {
    const form = formFor();
    begin(form);
    expect(eventsIn(form.failure(error))).toEqual([
      {
        type: "error",
        code: "provider_error",
        message: "upstream provider failure",
        param: null,
        sequence_number: sequence,
        error: {
          type: "provider_error",
          code: "provider_error",
          message: "upstream provider failure",
          param: null,
        },
      },
    ]);
  });
});

describe("an answer is kept up to the limit of a JSON answer", () => {
  const half = "x".repeat(ANSWER_BYTES_MAX / 2);
  test.each<[string, JsonFields]>([
    ["a text", { content: half }],
    ["reasoning", { reasoning_content: half }],
    ["arguments", { tool_calls: [callOf(0, "f", half)] }],
    ["calls", { tool_calls: Array.from({ length: 140_000 }, (__, at) => callOf(at, "f", "")) }],
    ["images", { images: [{ image_url: { url: `data:image/png;base64,${half}` } }] }],
    ["encrypted reasoning", { thinking_blocks: [{ data: half }] }],
  ])("%s", (_, delta) => {
    const form = formFor(encrypted);
    expect(() => {
      form.chunk(chunkOf(delta, null));
      form.chunk(chunkOf(delta, null));
      form.chunk(chunkOf({ content: "x" }, null));
    }).toThrow(ExcessiveAnswerError);
  });

  test("but the end of an answer never fails", () => {
    const form = formFor();
    form.chunk(chunkOf({ content: half }, null));
    const bytes = form.ending([chunkOf({ content: half + half }, "stop")], billed, reported);
    expect(bytes.length).toBeGreaterThan(2 * ANSWER_BYTES_MAX);
  });
});

describe("any answer", () => {
  const text = string({ minLength: 1, unit: "binary" });
  const calls = array(tuple(constantFrom("f", "patch", "ns__g"), text), { maxLength: 4 });
  const message = record(
    { reasoning_content: text, content: text, refusal: text, tool_calls: calls },
    { requiredKeys: [] },
  );
  const tools = [
    { type: "custom", name: "patch" },
    { type: "namespace", name: "ns", tools: [{ type: "custom", name: "g" }] },
  ];
  const finishes = constantFrom<FinishReason>("stop", "length", "content_filter", "tool_calls");

  test("is the same in JSON and in a stream that is cut anywhere", () => {
    assertProperty(
      property(
        message,
        finishes,
        infiniteStream(nat({ max: 7 })),
        ({ tool_calls: made = [], ...texts }, finish, sizes) => {
          const toolCalls = made.map(([name, input], at) => callOf(at, name, input));
          const response = whole(formFor({ tools }), { ...texts, tool_calls: toolCalls }, finish);
          const deltas: JsonFields[] = [];
          const addPieces = (value: string, deltaOf: (piece: string) => JsonFields): void => {
            for (let at = 0; at < value.length;) {
              const end = at + 1 + (sizes.next().value ?? 0);
              deltas.push(deltaOf(value.slice(at, end)));
              at = end;
            }
          };
          for (const name of ["reasoning_content", "content", "refusal"] as const) {
            addPieces(texts[name] ?? "", (piece) => ({ [name]: piece }));
          }
          for (const [at, [name, input]] of made.entries()) {
            deltas.push({ tool_calls: [callOf(at, name, "")] });
            addPieces(input, (piece) => ({ tool_calls: [moreOf(at, piece)] }));
          }
          const bytes = streamed(formFor({ tools }), [...deltas, {}], finish);
          expect(finalResponse(bytes)).toEqual(response);
        },
      ),
    );
  });
});
