import { describe, expect, test } from "bun:test";
import { openaiResponses } from "../../../src/providers/openai/openaiResponses.ts";
import { hello, notSupported, sentFor } from "../conformance/reading.ts";

/** The input items that are sent for these messages. */
function inputFor(messages: readonly object[]): object[] {
  return (JSON.parse(sentFor(openaiResponses, { messages })) as { input: object[] }).input;
}

/** What came of a call: as a chat says it, and as the input of this interface. */
const result = (id: string, content: unknown) => ({ role: "tool", tool_call_id: id, content });
const output = (kind: "function" | "custom_tool", id: string, said: unknown) => ({
  type: `${kind}_call_output`,
  call_id: id,
  output: said,
});

describe("a message", () => {
  const pdf = { filename: "a.pdf", file_data: "data:application/pdf;base64,AAAA" };
  const breakpoint = { prompt_cache_breakpoint: { mode: "explicit" } };
  const call = { id: "call_1", type: "function", function: { name: "f", arguments: "{}" } };
  const custom = { id: "call_2", type: "custom", custom: { name: "c", input: "do" } };
  const user = (...content: readonly object[]) => ({ role: "user", content });
  const assistant = (...content: readonly object[]) => ({ role: "assistant", content });
  const refusal = { type: "refusal", refusal: "No." };
  const hi = { role: "assistant", content: "Hi." };
  const silent = { role: "assistant", content: "" };
  const url = "https://a.example/b";

  const messages: Readonly<Record<string, readonly [given: object[], input: object[]]>> = {
    "a text, also of a user with a name": [[{ ...hello, name: "Ann" }], [hello]],
    "an assistant's text": [[hi], [hi]],
    "an assistant's text of nothing": [[silent], [silent]],
    "texts and pictures": [
      [
        user(
          { type: "text", text: "a" },
          { type: "image_url", image_url: { url, detail: "low" } },
          { type: "image_url", image_url: url },
          { type: "image_url", image_url: "data:image/jpg;base64,AA==" },
        ),
      ],
      [
        user(
          { type: "input_text", text: "a" },
          { type: "input_image", image_url: url, detail: "low" },
          { type: "input_image", image_url: url, detail: "auto" },
          { type: "input_image", image_url: "data:image/jpeg;base64,AA==", detail: "auto" },
        ),
      ],
    ],
    files: [
      [user({ type: "file", file: pdf }, { type: "file", file: { file_id: "file-1" } })],
      [user({ type: "input_file", ...pdf }, { type: "input_file", file_id: "file-1" })],
    ],
    "where the cache is to end, on each of these, and how closely to look at a file": [
      [
        user(
          { type: "text", text: "a", ...breakpoint },
          { type: "image_url", image_url: { url }, ...breakpoint },
          { type: "file", file: { ...pdf, detail: "low" }, ...breakpoint },
          { type: "text", text: "b", prompt_cache_breakpoint: null },
        ),
        result("call_1", [{ type: "text", text: "x", ...breakpoint }]),
      ],
      [
        user(
          { type: "input_text", text: "a", ...breakpoint },
          { type: "input_image", image_url: url, detail: "auto", ...breakpoint },
          { type: "input_file", ...pdf, detail: "low", ...breakpoint },
          { type: "input_text", text: "b" },
        ),
        output("function", "call_1", [{ type: "input_text", text: "x", ...breakpoint }]),
      ],
    ],
    "an assistant's parts": [
      [{ ...assistant({ type: "text", text: "Hi." }, refusal), reasoning_content: "hm" }],
      [assistant({ type: "output_text", text: "Hi." }, refusal)],
    ],
    "an assistant's refusal": [
      [
        { role: "assistant", content: "", refusal: "No." },
        { role: "assistant", content: null, refusal: "No." },
        { role: "assistant", content: "a", refusal: "No." },
      ],
      [
        assistant(refusal),
        assistant(refusal),
        assistant({ type: "output_text", text: "a" }, refusal),
      ],
    ],
    "calls of both kinds, and what came of them": [
      [
        { ...silent, tool_calls: [call, custom] },
        result("call_2", "done"),
        result("call_1", [{ type: "text", text: "x" }]),
      ],
      [
        { type: "function_call", call_id: "call_1", name: "f", arguments: "{}" },
        { type: "custom_tool_call", call_id: "call_2", name: "c", input: "do" },
        output("custom_tool", "call_2", "done"),
        output("function", "call_1", [{ type: "input_text", text: "x" }]),
      ],
    ],
    "arguments that are no JSON: the provider's to judge": [
      [{ role: "assistant", tool_calls: [{ ...call, function: { name: "f", arguments: "{" } }] }],
      [{ type: "function_call", call_id: "call_1", name: "f", arguments: "{" }],
    ],
  };
  test.each(Object.entries(messages))("is understood: %s", (_, [given, input]) => {
    expect(inputFor(given)).toEqual(input);
  });

  const at = "messages[0].content[0]";
  const calls = (one: object) => ({ ...silent, tool_calls: [one] });
  const unfit: readonly (readonly [object, string])[] = [
    [user({ type: "input_audio", input_audio: {} }), `${at} of the type input_audio`],
    // These would pass by what checks the ids of stored files.
    [user({ type: "input_image", file_id: "file-1" }), `${at} of the type input_image`],
    [user(refusal), `${at} of the type refusal`],
    [user({ type: "image_url", image_url: { url: 5 } }), `${at}.image_url`],
    [user({ type: "file" }), `${at}.file`],
    [assistant({ type: "image_url" }), `${at} of the type image_url`],
    [{ ...silent, audio: { id: "audio_1" } }, "messages[0].audio"],
    [{ ...silent, function_call: {} }, "messages[0].function_call"],
    [calls({ id: "x", type: "function" }), "messages[0].tool_calls[0] of the type function"],
    [calls({ ...call, id: 5 }), "messages[0].tool_calls[0]"],
  ];

  test.each(unfit)("that has no counterpart: %j", (message, path) => {
    expect(() => inputFor([message])).toThrow(notSupported(path));
  });
});
