import { describe, expect, test } from "bun:test";
import { openaiResponses } from "../../../src/providers/openai/openaiResponses.ts";
import { UnsupportedRequestError } from "../../../src/providers/provider.ts";
import { callOf } from "../conformance/reading.ts";
import { sentText } from "../../support/provider/sentText.ts";

const hello = { role: "user", content: "hello" };

/** The input items that are sent for these messages. */
function inputFor(messages: readonly object[]): object[] {
  const encoded = openaiResponses.encode(callOf(JSON.stringify({ messages })));
  return (JSON.parse(sentText(encoded)) as { input: object[] }).input;
}

describe("a message", () => {
  const pdf = { filename: "a.pdf", file_data: "data:application/pdf;base64,AAAA" };
  const breakpoint = { prompt_cache_breakpoint: { mode: "explicit" } };
  const call = { id: "call_1", type: "function", function: { name: "f", arguments: "{}" } };
  const custom = { id: "call_2", type: "custom", custom: { name: "c", input: "do" } };
  const messages: readonly (readonly [string, readonly object[], readonly object[]])[] = [
    ["a text, also of a user with a name", [{ ...hello, name: "Ann" }], [hello]],
    [
      "texts and pictures",
      [
        {
          role: "user",
          content: [
            { type: "text", text: "a" },
            { type: "image_url", image_url: { url: "https://a.example/b", detail: "low" } },
            { type: "image_url", image_url: "https://a.example/b" },
            { type: "image_url", image_url: "data:image/jpg;base64,AA==" },
          ],
        },
      ],
      [
        {
          role: "user",
          content: [
            { type: "input_text", text: "a" },
            { type: "input_image", image_url: "https://a.example/b", detail: "low" },
            { type: "input_image", image_url: "https://a.example/b", detail: "auto" },
            { type: "input_image", image_url: "data:image/jpeg;base64,AA==", detail: "auto" },
          ],
        },
      ],
    ],
    [
      "files",
      [
        {
          role: "user",
          content: [
            { type: "file", file: pdf },
            { type: "file", file: { file_id: "file-1" } },
          ],
        },
      ],
      [
        {
          role: "user",
          content: [
            { type: "input_file", ...pdf },
            { type: "input_file", file_id: "file-1" },
          ],
        },
      ],
    ],
    [
      "where the cache is to end, on each of these, and how closely to look at a file",
      [
        {
          role: "user",
          content: [
            { type: "text", text: "a", ...breakpoint },
            { type: "image_url", image_url: { url: "https://a.example/b" }, ...breakpoint },
            { type: "file", file: { ...pdf, detail: "low" }, ...breakpoint },
            { type: "text", text: "b", prompt_cache_breakpoint: null },
          ],
        },
        {
          role: "tool",
          tool_call_id: "call_1",
          content: [{ type: "text", text: "x", ...breakpoint }],
        },
      ],
      [
        {
          role: "user",
          content: [
            { type: "input_text", text: "a", ...breakpoint },
            {
              type: "input_image",
              image_url: "https://a.example/b",
              detail: "auto",
              ...breakpoint,
            },
            { type: "input_file", ...pdf, detail: "low", ...breakpoint },
            { type: "input_text", text: "b" },
          ],
        },
        {
          type: "function_call_output",
          call_id: "call_1",
          output: [{ type: "input_text", text: "x", ...breakpoint }],
        },
      ],
    ],
    [
      "an assistant's text",
      [{ role: "assistant", content: "Hi." }],
      [{ role: "assistant", content: "Hi." }],
    ],
    [
      "an assistant's text of nothing",
      [{ role: "assistant", content: "" }],
      [{ role: "assistant", content: "" }],
    ],
    [
      "an assistant's parts",
      [
        {
          role: "assistant",
          content: [
            { type: "text", text: "Hi." },
            { type: "refusal", refusal: "No." },
          ],
          reasoning_content: "hm",
        },
      ],
      [
        {
          role: "assistant",
          content: [
            { type: "output_text", text: "Hi." },
            { type: "refusal", refusal: "No." },
          ],
        },
      ],
    ],
    [
      "an assistant's refusal",
      [
        { role: "assistant", content: "", refusal: "No." },
        { role: "assistant", content: null, refusal: "No." },
        { role: "assistant", content: "a", refusal: "b" },
      ],
      [
        { role: "assistant", content: [{ type: "refusal", refusal: "No." }] },
        { role: "assistant", content: [{ type: "refusal", refusal: "No." }] },
        {
          role: "assistant",
          content: [
            { type: "output_text", text: "a" },
            { type: "refusal", refusal: "b" },
          ],
        },
      ],
    ],
    [
      "calls of both kinds, and what came of them",
      [
        { role: "assistant", content: "", tool_calls: [call, custom] },
        { role: "tool", tool_call_id: "call_2", content: "done" },
        { role: "tool", tool_call_id: "call_1", content: [{ type: "text", text: "x" }] },
      ],
      [
        { type: "function_call", call_id: "call_1", name: "f", arguments: "{}" },
        { type: "custom_tool_call", call_id: "call_2", name: "c", input: "do" },
        { type: "custom_tool_call_output", call_id: "call_2", output: "done" },
        {
          type: "function_call_output",
          call_id: "call_1",
          output: [{ type: "input_text", text: "x" }],
        },
      ],
    ],
    [
      "arguments that are no JSON: the provider's to judge",
      [{ role: "assistant", tool_calls: [{ ...call, function: { name: "f", arguments: "{" } }] }],
      [{ type: "function_call", call_id: "call_1", name: "f", arguments: "{" }],
    ],
  ];

  test.each(messages)("is understood: %s", (_, given, input) => {
    expect(inputFor(given)).toEqual([...input]);
  });

  const at = "messages[0].content[0]";
  const unfit: readonly (readonly [object, string])[] = [
    [
      { role: "user", content: [{ type: "input_audio", input_audio: {} }] },
      `${at} of the type input_audio`,
    ],
    // These would pass by what checks the ids of stored files.
    [
      { role: "user", content: [{ type: "input_image", file_id: "file-1" }] },
      `${at} of the type input_image`,
    ],
    [{ role: "user", content: [{ type: "refusal", refusal: "x" }] }, `${at} of the type refusal`],
    [{ role: "user", content: [{ type: "image_url", image_url: { url: 5 } }] }, `${at}.image_url`],
    [{ role: "user", content: [{ type: "file" }] }, `${at}.file`],
    [{ role: "assistant", content: [{ type: "image_url" }] }, `${at} of the type image_url`],
    [{ role: "assistant", content: "", audio: { id: "audio_1" } }, "messages[0].audio"],
    [{ role: "assistant", content: "", function_call: {} }, "messages[0].function_call"],
    [
      { role: "assistant", content: "", tool_calls: [{ id: "x", type: "function" }] },
      "messages[0].tool_calls[0] of the type function",
    ],
    [
      { role: "assistant", content: "", tool_calls: [{ ...call, id: 5 }] },
      "messages[0].tool_calls[0]",
    ],
  ];

  test.each(unfit)("that has no counterpart: %j", (message, path) => {
    const words = `${path} is not supported by this model's provider`;
    expect(() => inputFor([message])).toThrow(new UnsupportedRequestError(words));
  });
});
