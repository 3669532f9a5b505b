import { describe, expect, test } from "bun:test";
import { checkResponsesRequest } from "../../src/contract/responses/responsesRequest.ts";
import type { Fields } from "./responsesRows.ts";

const check = (fields: Fields) =>
  checkResponsesRequest({ model: "m", ...fields }, { refusedFields: [], refusedTools: [] });

describe("what counts as one part that is no text", () => {
  const base64 = "A".repeat(4000);
  const url = `data:image/png;base64,${base64}`;
  const output = (part: object): Fields => ({ type: "function_call_output", output: [part] });
  test.each<[name: string, item: Fields]>([
    [
      "a screenshot",
      { type: "computer_call_output", output: { type: "computer_screenshot", image_url: url } },
    ],
    ["a picture that was made earlier", { type: "image_generation_call", result: base64 }],
    ["a picture in the output of a tool", output({ type: "input_image", image_url: url })],
    ["a picture of MCP's in the output of a tool", output({ type: "image", data: base64 })],
    ["a picture in the form of a chat", output({ type: "image_url", image_url: { url } })],
    ["a file in the output of a tool", output({ type: "input_file", file_data: base64 })],
    ["sound in the output of a tool", output({ type: "audio", data: base64 })],
  ])("%s", (_, item) => {
    const { promptSize } = check({ input: [item] });
    expect(promptSize.otherParts).toBe(1);
    expect(promptSize.textBytes).toBeLessThan(100);
  });

  test("but not where a schema calls something so", () => {
    const parameters = { type: "image", description: base64 };
    const { promptSize } = check({ tools: [{ type: "function", name: "f", parameters }] });
    expect(promptSize.otherParts).toBe(0);
    expect(promptSize.textBytes).toBeGreaterThan(4000);
  });

  test("and words in the same places count as words", () => {
    for (const type of ["input_text", "output_text", "text", "made_up"]) {
      const { promptSize } = check({ input: [output({ type, text: base64 })] });
      expect(promptSize.otherParts).toBe(0);
      expect(promptSize.textBytes).toBeGreaterThan(4000);
    }
  });
});
