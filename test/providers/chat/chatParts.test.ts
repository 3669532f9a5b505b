import { describe, expect, test } from "bun:test";
import type { RequestMessage } from "../../../src/contract/chat/chatRequestBody.ts";
import { bodyWithOthers, partsOf, textsOf } from "../../../src/providers/chat/chatParts.ts";
import {
  answeredCallOf,
  argumentsOf,
  formatOf,
  toolCallsOf,
  toolChoiceOf,
  toolsOf,
} from "../../../src/providers/chat/chatTools.ts";
import { UnsupportedRequestError } from "../../../src/providers/provider.ts";
import { sentText } from "../../support/provider/sentText.ts";
import { anthropicDialect } from "../conformance/anthropicDialect.ts";
import { geminiDialect } from "../conformance/geminiDialect.ts";
import { callOf, notSupported } from "../conformance/reading.ts";

const user = (content: unknown) => ({ role: "user", content }) as RequestMessage;
const request = (fields: object) =>
  callOf(JSON.stringify({ messages: [{ role: "user", content: "x" }], ...fields })).request.body;

describe("the parts of a message", () => {
  test("a string is one text, null and an empty list are no text", () => {
    expect(partsOf(user("hello"), "messages[0]")).toMatchObject([{ kind: "text", text: "hello" }]);
    expect(partsOf(user(null), "messages[0]")).toEqual([]);
    expect(partsOf(user([]), "messages[0]")).toEqual([]);
  });

  test("a refusal in the history is a text", () => {
    const refusal = { type: "refusal", refusal: "No." };
    expect(partsOf(user([refusal]), "messages[0]")).toMatchObject([{ kind: "text", text: "No." }]);
  });

  test("a refusal beside an assistant's content is its last text; other roles have none", () => {
    const textsSaid = (fields: object) =>
      textsOf({ role: "assistant", refusal: "No.", ...fields } as RequestMessage, "messages[0]");
    for (const content of [undefined, null, "", []]) {
      expect(textsSaid({ content }).join("")).toBe("No.");
    }
    expect(textsSaid({ content: "Well." })).toEqual(["Well.", "No."]);
    expect(textsSaid({ content: "Well.", refusal: null })).toEqual(["Well."]);
    expect(textsSaid({ content: "Well.", refusal: "" })).toEqual(["Well."]);
    expect(textsSaid({ content: "Well.", role: "user" })).toEqual(["Well."]);
  });

  test.each([
    ["data:image/png;base64,AA==", { kind: "data", mediaType: "image/png", base64: "AA==" }],
    ["DATA:Image/PNG;Base64,AA==", { kind: "data", mediaType: "image/png", base64: "AA==" }],
    ["data:image/jpg;base64,AA==", { kind: "data", mediaType: "image/jpeg", base64: "AA==" }],
    ["data:image/png;name=a.png;base64,AA", { kind: "data", mediaType: "image/png", base64: "AA" }],
    ["data:;base64,AA", { kind: "data", mediaType: "", base64: "AA" }],
    ["https://a.example/b.png?c=d", { kind: "url", url: "https://a.example/b.png?c=d" }],
  ])("an image at %s", (url, source) => {
    const given = { type: "image_url", image_url: { url } };
    expect(partsOf(user([given]), "messages[0]")).toMatchObject([{ kind: "image", source }]);
    expect(partsOf(user([{ ...given, image_url: url }]), "m")).toMatchObject([{ source }]);
  });

  test.each(["data:image/png,AA", "data:image/png;base64", "file:///etc/passwd", "", "ftp://a/b"])(
    "an image at %j is refused, and its address is not repeated",
    (url) => {
      expect(() => partsOf(user([{ type: "image_url", image_url: { url } }]), "m")).toThrow(
        new UnsupportedRequestError(
          "m.content[0].image_url must be an http(s) address or a data: URL in base64",
        ),
      );
    },
  );

  test("a recording and a file in the request", () => {
    const audio = { type: "input_audio", input_audio: { data: "AA", format: "wav" } };
    const file_data = "data:application/pdf;base64,AA";
    const file = { type: "file", file: { filename: "a.pdf", file_data } };
    expect(partsOf(user([audio, file]), "messages[0]")).toMatchObject([
      { kind: "audio", format: "wav", base64: "AA" },
      { kind: "file", name: "a.pdf", source: { mediaType: "application/pdf", base64: "AA" } },
    ]);
  });

  test("a data: URL with a media type of megabytes is refused before it is split", () => {
    const url = `data:${";".repeat(1_000_000)};base64,AA`;
    const message = user([{ type: "image_url", image_url: { url } }]);
    expect(() => partsOf(message, "m")).toThrow(
      "m.content[0].image_url must be an http(s) address",
    );
  });

  test.each([
    [{ type: "file", file: { file_id: "file-1" } }, " of the type file"],
    [{ type: "image_url" }, " of the type image_url"],
    [{ type: "video_url", video_url: {} }, " of the type video_url"],
    [{ type: "text\n" }, ""],
    [{ type: "x".repeat(65) }, ""],
  ])("%j is refused", (part, named) => {
    const message = user([{ type: "text", text: "x" }, part]);
    expect(() => partsOf(message, "messages[2]")).toThrow(
      notSupported(`messages[2].content[1]${named}`),
    );
  });

  test("an image is refused where only text is possible", () => {
    const text = { type: "text", text: "x" };
    const image = { type: "image_url", image_url: { url: "https://a.example" } };
    expect(textsOf(user([text, text]), "messages[0]")).toEqual(["x", "x"]);
    expect(() => textsOf(user([text, image]), "messages[0]")).toThrow(
      notSupported("messages[0].content[1] of the type image_url"),
    );
  });
});

describe("tools", () => {
  test("are read with all their fields", () => {
    const definition = {
      name: "f",
      description: "d",
      parameters: { type: "object" },
      strict: true,
    };
    const tool = { type: "function", function: definition, cache_control: { type: "ephemeral" } };
    expect(toolsOf(request({ tools: [tool] }))).toEqual([{ ...definition, own: tool }]);
    expect(toolsOf(request({}))).toEqual([]);
    expect(toolsOf(request({ tools: null, functions: null }))).toEqual([]);
  });

  test.each([
    [{ tools: {} }, "tools"],
    [{ tools: [1] }, "tools[0]"],
    [{ tools: [{ type: "web_search" }] }, "tools[0] of the type web_search"],
    [{ tools: [{ type: "function" }] }, "tools[0] of the type function"],
    [{ tools: [{ type: "function", function: {} }] }, "tools[0].function"],
    [
      { tools: [{ type: "function", function: { name: "f", parameters: "x" } }] },
      "tools[0].function.parameters",
    ],
    [{ functions: [] }, "functions"],
  ])("%j are refused", (fields, what) => {
    expect(() => toolsOf(request(fields))).toThrow(notSupported(what));
  });

  test.each([
    [undefined, undefined],
    [null, undefined],
    ["required", { kind: "required" }],
    [
      { type: "function", function: { name: "f" } },
      { kind: "tool", name: "f" },
    ],
  ])("the choice %j", (tool_choice, choice) => {
    expect(toolChoiceOf(request({ tool_choice }))).toEqual(choice as never);
  });

  test.each([
    [{ tool_choice: "any" }, "tool_choice"],
    [{ tool_choice: { type: "function" } }, "tool_choice"],
    [{ tool_choice: { type: "allowed_tools" } }, "tool_choice"],
    [{ function_call: "auto" }, "function_call"],
  ])("the choice in %j is refused", (fields, what) => {
    expect(() => toolChoiceOf(request(fields))).toThrow(notSupported(what));
  });
});

describe("calls", () => {
  const assistant = (fields: object) =>
    ({ role: "assistant", content: null, ...fields }) as RequestMessage;
  const call = (given: unknown) =>
    assistant({ tool_calls: [{ id: "a", function: { name: "f", arguments: given } }] });

  test.each([
    ['{"a":1}', { a: 1 }],
    ["{}", {}],
    ["", {}],
    [" ", {}],
    [undefined, {}],
  ])("with the arguments %j", (given, value) => {
    const [read] = toolCallsOf(call(given), "messages[1]");
    expect(read).toMatchObject({ id: "a", name: "f" });
    expect(read && argumentsOf(read, JSON.parse)).toEqual(value);
  });

  test.each(["{", "[1]", "1", "null", '"x"'])("with the arguments %j are refused", (given) => {
    const [read] = toolCallsOf(call(given), "messages[1]");
    expect(() => read && argumentsOf(read, JSON.parse)).toThrow(
      new UnsupportedRequestError(
        "messages[1].tool_calls[0].function.arguments must be a JSON object",
      ),
    );
  });

  test.each([
    [{ tool_calls: "x" }, "messages[1].tool_calls"],
    [{ tool_calls: [null] }, "messages[1].tool_calls[0]"],
    [{ tool_calls: [{ id: "a" }] }, "messages[1].tool_calls[0] of the type function"],
    [{ tool_calls: [{ id: "a", type: "custom" }] }, "messages[1].tool_calls[0] of the type custom"],
    [{ tool_calls: [{ function: { name: "f" } }] }, "messages[1].tool_calls[0]"],
    [{ function_call: { name: "f" } }, "messages[1].function_call"],
  ])("%j are refused", (fields, what) => {
    expect(() => toolCallsOf(assistant(fields), "messages[1]")).toThrow(notSupported(what));
  });

  test("a result names its call", () => {
    const result = { role: "tool", content: "x", tool_call_id: "a" } as RequestMessage;
    expect(answeredCallOf(result, "messages[2]")).toBe("a");
    expect(() => answeredCallOf(user("x"), "messages[2]")).toThrow(
      new UnsupportedRequestError("messages[2].tool_call_id is required"),
    );
  });
});

describe("the form of the answer", () => {
  const schema = { type: "object" };
  test.each([
    [undefined, undefined],
    [null, undefined],
    [{ type: "text" }, undefined],
    [{ type: "json_object" }, { kind: "json" }],
    [
      { type: "json_schema", json_schema: { name: "n", description: "d", strict: true, schema } },
      { kind: "schema", name: "n", description: "d", strict: true, schema },
    ],
  ])("%j", (response_format, format) => {
    expect(formatOf(request({ response_format }))).toEqual(format as never);
  });

  test.each([
    ["json", "response_format"],
    [{ type: "grammar" }, "response_format"],
    [{ type: "json_schema" }, "response_format"],
    [{ type: "json_schema", json_schema: { name: "n" } }, "response_format.json_schema"],
  ])("%j is refused", (response_format, what) => {
    expect(() => formatOf(request({ response_format }))).toThrow(notSupported(what));
  });
});

describe("the body for another interface", () => {
  const call = callOf(
    '{"messages":[{"role":"user","content":"x"}], "seed":1,"top_k" : 12345678901234567890, "own":{"a":[1.0]}, "__proto__":{"b":1}}',
  );

  test("has the given fields, then unknown fields, digit for digit", () => {
    expect(bodyWithOthers(call, { model: "m", max_tokens: 5, stop: undefined })).toBe(
      '{"model":"m","max_tokens":5,"top_k":12345678901234567890,"own":{"a":[1.0]},"__proto__":{"b":1}}',
    );
  });

  test("has a field once if both have it", () => {
    expect(bodyWithOthers(call, { own: 1, top_k: undefined, "__proto__ ": 2 })).toBe(
      '{"own":1,"__proto__ ":2,"top_k":12345678901234567890,"__proto__":{"b":1}}',
    );
  });

  test("has none that the provider refuses", () => {
    const options = { ...call.options, dropFields: ["own", "stop"] };
    expect(bodyWithOthers({ ...call, options }, { model: "m", stop: ["x"] })).toBe(
      '{"model":"m","top_k":12345678901234567890,"__proto__":{"b":1}}',
    );
  });

  test("is refused if a given field is nested too deep", () => {
    const deep: unknown = JSON.parse("[".repeat(5000) + "]".repeat(5000));
    expect(() => bodyWithOthers(call, { tools: deep })).toThrow(UnsupportedRequestError);
  });
});

const digits = "12345678901234567890";
const rounded = "12345678901234567000";

const called = (id: string) => ({
  id,
  type: "function",
  function: { name: "f", arguments: `{"id":${digits},"a":"${"x".repeat(200_000)}"}` },
});

// Exact parsing takes fifteen times as long, and one body can have a hundred such calls.
test.each([anthropicDialect, geminiDialect])(
  "$name: the calls of a request keep the digits of long numbers up to a total length",
  (dialect) => {
    const body = JSON.stringify({
      messages: [
        { role: "user", content: "hello" },
        { role: "assistant", content: "x", tool_calls: [called("a"), called("b")] },
      ],
    });
    const sent = sentText(dialect.chat.encode(callOf(body)));
    expect(sent.split(digits)).toHaveLength(2);
    expect(sent.indexOf(digits)).toBeLessThan(sent.indexOf(rounded));
  },
);
