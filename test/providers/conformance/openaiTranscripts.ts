import type { Transcript } from "./dialect.ts";

const head =
  '"id":"chatcmpl-123","object":"chat.completion.chunk","created":1694268190,"model":"gpt-4o-mini","system_fingerprint":"fp_44709d6fcb"';

/**
 * A stream with a text and two calls, after "The chat completion chunk object" of
 * https://platform.openai.com/docs/api-reference/chat-streaming, in some of the forms that servers give it.
 */
const events = [
  `{${head},"choices":[{"index":0,"delta":{"role":"assistant","content":"","refusal":null},"logprobs":null,"finish_reason":null}],"usage":null}`,
  `{${head},"choices":[{"index":0,"delta":{"content":"Grüße 👋"},"logprobs":null,"finish_reason":null}],"usage":null}`,
  `{${head},"choices":[{"index":0,"delta":{"content":" \\ud83d\\ude00"},"logprobs":null,"finish_reason":null}],"usage":null}`,
  `{${head},"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"id":"call_1","type":"function","function":{"name":"weather","arguments":""}}]},"finish_reason":null}]}`,
  `{${head},"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"function":{"arguments":"{\\"city\\":"}}]},"finish_reason":null}]}`,
  `{${head},"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"function":{"arguments":"\\"Köln\\"}"}}]},"finish_reason":null}]}`,
  `{${head},"choices":[{"index":0,"delta":{"tool_calls":[{"index":1,"id":"call_2","type":"function","function":{"name":"clock","arguments":"{}"}}]},"finish_reason":null}]}`,
  `{${head},"choices":[{"index":0,"delta":{},"logprobs":null,"finish_reason":"tool_calls"}],"usage":null}`,
  `{${head},"choices":[],"usage":{"prompt_tokens":40,"completion_tokens":9,"total_tokens":49,"prompt_tokens_details":{"cached_tokens":10,"audio_tokens":0},"completion_tokens_details":{"reasoning_tokens":0,"audio_tokens":0}}}`,
  "[DONE]",
];

const answer: Transcript["answer"] = {
  text: "Grüße 👋 😀",
  toolCalls: [
    { id: "call_1", name: "weather", arguments: '{"city":"Köln"}' },
    { id: "call_2", name: "clock", arguments: "{}" },
  ],
  finish: "tool_calls",
  usage: { prompt: 40, cached: 10, cacheWrite: 0, completion: 9, reasoning: 0 },
};

export const openaiTranscripts: readonly Transcript[] = [
  { name: "as documented", text: events.map((data) => `data: ${data}\n\n`).join(""), answer },
  {
    name: "with a mark of the byte order, line ends of two kinds, and comments",
    text: `\ufeff: OPENROUTER PROCESSING\r\n\r\n${events
      .map((data, at) =>
        at % 2 === 0 ? `data:${data}\r\n\r\n` : `: still here\nid: ${at}\ndata: ${data}\n\n`,
      )
      .join("")}`,
    answer,
  },
];
