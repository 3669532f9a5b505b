import type { Transcript } from "./dialect.ts";

const begun =
  '{"id":"resp_67c9fdce","object":"response","created_at":1741290958,"status":"in_progress","error":null,"incomplete_details":null,"instructions":null,"model":"gpt-5-mini-2025-08-07","output":[],"parallel_tool_calls":true,"store":false,"usage":null,"metadata":{}}';

const reasoning =
  '{"id":"rs_1","type":"reasoning","summary":[{"type":"summary_text","text":"**Greeting** them."},{"type":"summary_text","text":"Then the weather."}]}';
const search = '{"id":"ws_1","type":"web_search_call","status":"completed"}';
const message =
  '{"id":"msg_1","type":"message","status":"completed","role":"assistant","content":[{"type":"output_text","text":"Grüße 👋 😀","annotations":[]}]}';
const weather =
  '{"id":"fc_1","type":"function_call","status":"completed","arguments":"{\\"city\\":\\"Köln\\"}","call_id":"call_1","name":"weather"}';
const clock =
  '{"id":"fc_2","type":"function_call","status":"completed","arguments":"{}","call_id":"call_2","name":"clock"}';

const usage =
  '{"input_tokens":40,"input_tokens_details":{"cached_tokens":10},"output_tokens":99,"output_tokens_details":{"reasoning_tokens":64},"total_tokens":139}';
const ended = begun
  .replace('"in_progress"', '"completed"')
  .replace('"output":[]', `"output":[${[reasoning, search, message, weather, clock].join(",")}]`)
  .replace('"usage":null', `"usage":${usage}`);

/** Where the text of each event stands. */
const summary = '"item_id":"rs_1","output_index":0,"summary_index":0';
const part = '"item_id":"msg_1","output_index":2,"content_index":0';
const weatherCall = '"item_id":"fc_1","output_index":3';
const clockCall = '"item_id":"fc_2","output_index":4';

/**
 * A stream with reasoning, a search of the provider's own, a text and two calls, put together after the events of
 * https://platform.openai.com/docs/api-reference/responses-streaming. `obfuscation` pads them.
 */
const events: readonly (readonly [type: string, fields: string])[] = [
  ["response.created", `"response":${begun}`],
  ["response.in_progress", `"response":${begun}`],
  [
    "response.output_item.added",
    '"output_index":0,"item":{"id":"rs_1","type":"reasoning","summary":[]}',
  ],
  ["response.reasoning_summary_part.added", `${summary},"part":{"type":"summary_text","text":""}`],
  [
    "response.reasoning_summary_text.delta",
    `${summary},"delta":"**Greeting**","obfuscation":"aGk"`,
  ],
  ["response.reasoning_summary_text.delta", `${summary},"delta":" them."`],
  ["response.reasoning_summary_text.done", `${summary},"text":"**Greeting** them."`],
  [
    "response.reasoning_summary_part.done",
    `${summary},"part":{"type":"summary_text","text":"**Greeting** them."}`,
  ],
  [
    "response.reasoning_summary_text.delta",
    '"item_id":"rs_1","output_index":0,"summary_index":1,"delta":"Then the weather."',
  ],
  ["response.output_item.done", `"output_index":0,"item":${reasoning}`],
  [
    "response.output_item.added",
    '"output_index":1,"item":{"id":"ws_1","type":"web_search_call","status":"in_progress"}',
  ],
  ["response.web_search_call.searching", '"output_index":1,"item_id":"ws_1"'],
  ["response.output_item.done", `"output_index":1,"item":${search}`],
  [
    "response.output_item.added",
    '"output_index":2,"item":{"id":"msg_1","type":"message","status":"in_progress","role":"assistant","content":[]}',
  ],
  [
    "response.content_part.added",
    `${part},"part":{"type":"output_text","text":"","annotations":[]}`,
  ],
  ["response.output_text.delta", `${part},"delta":"Grüße","logprobs":[],"obfuscation":"x"`],
  ["response.output_text.delta", `${part},"delta":" 👋 \\ud83d\\ude00","logprobs":[]`],
  ["response.output_text.done", `${part},"text":"Grüße 👋 😀","logprobs":[]`],
  [
    "response.content_part.done",
    `${part},"part":{"type":"output_text","text":"Grüße 👋 😀","annotations":[]}`,
  ],
  ["response.output_item.done", `"output_index":2,"item":${message}`],
  [
    "response.output_item.added",
    '"output_index":3,"item":{"id":"fc_1","type":"function_call","status":"in_progress","arguments":"","call_id":"call_1","name":"weather"}',
  ],
  ["response.function_call_arguments.delta", `${weatherCall},"delta":"{\\"city\\":"`],
  ["response.function_call_arguments.delta", `${weatherCall},"delta":"\\"Köln\\"}"`],
  ["response.function_call_arguments.done", `${weatherCall},"arguments":"{\\"city\\":\\"Köln\\"}"`],
  ["response.output_item.done", `"output_index":3,"item":${weather}`],
  [
    "response.output_item.added",
    '"output_index":4,"item":{"id":"fc_2","type":"function_call","status":"in_progress","arguments":"","call_id":"call_2","name":"clock"}',
  ],
  ["response.function_call_arguments.delta", `${clockCall},"delta":"{}"`],
  ["response.function_call_arguments.done", `${clockCall},"arguments":"{}"`],
  ["response.output_item.done", `"output_index":4,"item":${clock}`],
  ["response.completed", `"response":${ended}`],
];

const answer: Transcript["answer"] = {
  reasoning: "**Greeting** them.\n\nThen the weather.",
  text: "Grüße 👋 😀",
  toolCalls: [
    { id: "call_1", name: "weather", arguments: '{"city":"Köln"}' },
    { id: "call_2", name: "clock", arguments: "{}" },
  ],
  finish: "tool_calls",
  usage: { prompt: 40, cached: 10, cacheWrite: 0, completion: 99, reasoning: 64, webSearches: 1 },
};

function dataOf([type, fields]: (typeof events)[number], at: number): string {
  return `{"type":"${type}","sequence_number":${at},${fields}}`;
}

export const openaiResponsesTranscripts: readonly Transcript[] = [
  {
    name: "as documented",
    text: events.map((one, at) => `event: ${one[0]}\ndata: ${dataOf(one, at)}\n\n`).join(""),
    answer,
  },
  {
    name: "of an imitator, with line ends of two kinds, comments, no names and an end of its own",
    text: `${events
      .map((one, at) =>
        at % 2 === 0 ? `data:${dataOf(one, at)}\r\n\r\n` : `: here\ndata: ${dataOf(one, at)}\n\n`,
      )
      .join("")}data: [DONE]\n\n`,
    answer,
  },
];
