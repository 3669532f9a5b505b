import type { Transcript } from "./dialect.ts";

/**
 * A stream of everything: a thought with its signature, one that is hidden, a text, and two calls of which one has no
 * arguments. After "Streaming request with extended thinking", "with tool use" and "Ping events" of
 * https://platform.claude.com/docs/en/build-with-claude/streaming.
 */
const events = [
  `{"type":"message_start","message":{"id":"msg_01","type":"message","role":"assistant","content":[],"model":"claude-opus-4-6","stop_reason":null,"stop_sequence":null,"usage":{"input_tokens":25,"cache_creation_input_tokens":5,"cache_read_input_tokens":10,"output_tokens":3}}}`,
  `{"type":"ping"}`,
  `{"type":"content_block_start","index":0,"content_block":{"type":"thinking","thinking":"","signature":""}}`,
  `{"type":"content_block_delta","index":0,"delta":{"type":"thinking_delta","thinking":"Köln is "}}`,
  `{"type":"content_block_delta","index":0,"delta":{"type":"thinking_delta","thinking":"a city 🌧."}}`,
  `{"type":"content_block_delta","index":0,"delta":{"type":"signature_delta","signature":"EqQBCgIYAhIM1gbcDa9GJwZA2b3hGgxBdjrkzLoky3dl1pkiMOYds"}}`,
  `{"type":"content_block_stop","index":0}`,
  `{"type":"content_block_start","index":1,"content_block":{"type":"redacted_thinking","data":"EmwKAhgBEgy3va3pzix"}}`,
  `{"type":"content_block_stop","index":1}`,
  `{"type":"content_block_start","index":2,"content_block":{"type":"text","text":""}}`,
  `{"type":"content_block_delta","index":2,"delta":{"type":"text_delta","text":"Okay, let's check "}}`,
  `{"type":"content_block_delta","index":2,"delta":{"type":"citations_delta","citation":{"type":"char_location"}}}`,
  `{"type":"content_block_delta","index":2,"delta":{"type":"text_delta","text":"\\u2014 :"}}`,
  `{"type":"content_block_stop","index":2}`,
  `{"type":"content_block_start","index":3,"content_block":{"type":"tool_use","id":"toolu_01","name":"get_weather","input":{}}}`,
  `{"type":"content_block_delta","index":3,"delta":{"type":"input_json_delta","partial_json":""}}`,
  `{"type":"content_block_delta","index":3,"delta":{"type":"input_json_delta","partial_json":"{\\"location\\":"}}`,
  `{"type":"content_block_delta","index":3,"delta":{"type":"input_json_delta","partial_json":" \\"Köln\\"}"}}`,
  `{"type":"content_block_stop","index":3}`,
  `{"type":"content_block_start","index":4,"content_block":{"type":"tool_use","id":"toolu_02","name":"get_time","input":{}}}`,
  `{"type":"content_block_delta","index":4,"delta":{"type":"input_json_delta","partial_json":""}}`,
  `{"type":"content_block_stop","index":4}`,
  `{"type":"message_delta","delta":{"stop_reason":"tool_use","stop_sequence":null},"usage":{"output_tokens":89}}`,
  `{"type":"message_stop"}`,
];

const answer: Transcript["answer"] = {
  reasoning: "Köln is a city 🌧.",
  text: "Okay, let's check — :",
  toolCalls: [
    { id: "toolu_01", name: "get_weather", arguments: '{"location":"Köln"}' },
    { id: "toolu_02", name: "get_time", arguments: "{}" },
  ],
  finish: "tool_calls",
  usage: { prompt: 40, cached: 10, cacheWrite: 5, completion: 89, reasoning: 0 },
};

function nameOf(event: string): string {
  return /"type":"(\w+)"/.exec(event)?.[1] ?? "";
}

export const anthropicTranscripts: readonly Transcript[] = [
  {
    name: "as documented",
    text: events.map((data) => `event: ${nameOf(data)}\ndata: ${data}\n\n`).join(""),
    answer,
  },
  {
    name: "of other line ends, with comments, events of the future and a second terminator",
    text: [
      ": connected\r\n\r\n",
      ...events.map((data, at) =>
        at % 2 === 0
          ? `event: ${nameOf(data)}\r\ndata: ${data}\r\n\r\n`
          : `data:${data}\n: still here\n\nevent: weather\ndata: {"type":"weather"}\n\n`,
      ),
      "data: [DONE]\n\n",
    ].join(""),
    answer,
  },
];
