const hello = { role: "user", content: "hello" };

const call = (fields: object) => ({
  messages: [hello, { role: "assistant", content: "x", tool_calls: [fields] }],
});

/** What an interface may refuse with an UnsupportedRequestError, but must not stumble over in any other way. */
export const hostileRequests: Readonly<Record<string, string>> = {
  "keys of the language's own": JSON.stringify({
    messages: [{ ...hello, constructor: 1 }],
    constructor: "x",
    toString: null,
  }).replace('"constructor":"x"', '"__proto__":{"tools":[1],"stream":true},"constructor":"x"'),
  "tools that are no list": JSON.stringify({ messages: [hello], tools: { a: 1 } }),
  "tools that are no objects": JSON.stringify({ messages: [hello], tools: [null, 1, "x", []] }),
  "a tool without a function": JSON.stringify({ messages: [hello], tools: [{ type: "function" }] }),
  "a tool of the provider's own": JSON.stringify({ messages: [hello], tools: [{ type: "web" }] }),
  "a choice that is nonsense": JSON.stringify({ messages: [hello], tool_choice: ["x"] }),
  "a tool nested deep": `{"messages":[{"role":"user","content":"x"}],"tools":[{"type":"function","function":{"name":"f","parameters":{"a":${"[".repeat(50_000)}${"]".repeat(50_000)}}}}]}`,
  "arguments nested deep": JSON.stringify(
    call({
      id: "a",
      type: "function",
      function: { name: "f", arguments: `{"a":${"[".repeat(50_000)}${"]".repeat(50_000)}}` },
    }),
  ),
  "arguments that are no JSON": JSON.stringify(
    call({ id: "a", type: "function", function: { name: "f", arguments: "{" } }),
  ),
  "arguments that are a list": JSON.stringify(
    call({ id: "a", type: "function", function: { name: "f", arguments: "[1]" } }),
  ),
  "a call without a function": JSON.stringify(call({ id: "a", type: "function" })),
  "calls that are no list": JSON.stringify({
    messages: [{ role: "assistant", content: "x", tool_calls: "none" }],
  }),
  "a result of no call": JSON.stringify({ messages: [{ role: "tool", content: "x" }] }),
  "a recording": JSON.stringify({
    messages: [
      {
        role: "user",
        content: [{ type: "input_audio", input_audio: { data: "AAAA", format: "wav" } }],
      },
    ],
  }),
  "a stored file": JSON.stringify({
    messages: [{ role: "user", content: [{ type: "file", file: { file_id: "file-1" } }] }],
  }),
  "a picture that is none": JSON.stringify({
    messages: [{ role: "user", content: [{ type: "image_url", image_url: { url: "file:///x" } }] }],
  }),
  "an answer's pictures that are none": JSON.stringify({
    messages: [{ role: "assistant", content: "", images: [null, 5, { image_url: 5 }] }],
  }),
  "thoughts that stood behind more than there is": JSON.stringify({
    messages: [
      hello,
      {
        role: "assistant",
        content: "x",
        thinking_blocks: [1, 2].map((at) => ({
          type: "thinking",
          thinking: "x",
          signature: "x",
          after: { characters: at * 1e15, calls: at * 1e15 },
        })),
      },
    ],
  }),
  "a choice of no tools": JSON.stringify({
    messages: [hello],
    tool_choice: { type: "allowed_tools", allowed_tools: { mode: "auto", tools: [null] } },
  }),
  "parts of no known type": JSON.stringify({
    messages: [{ role: "user", content: [{ type: "x".repeat(1000) }] }],
  }),
  "nothing but instructions": JSON.stringify({ messages: [{ role: "system", content: "Be." }] }),
  "nothing but blanks": JSON.stringify({ messages: [{ role: "user", content: " " }] }),
  "the answer's beginning": JSON.stringify({
    messages: [hello, { role: "assistant", content: "It is " }],
  }),
};
