import { describe, expect, test } from "bun:test";
import { parseResponse } from "../../src/gateway/endpoints/responses.ts";
import { ResponsesDecoder } from "../../src/gateway/decoding/responsesDecoder.ts";
import { parseAnswer } from "../../src/providers/reportedFailure.ts";
import { errorOfReply } from "../../src/providers/errorReply.ts";
import { AnswerError } from "../../src/providers/provider.ts";
import { collidingNames } from "../support/provider/collidingNames.ts";

const costly = JSON.stringify({ object: "response", names: collidingNames(500) });
const refusal = new AnswerError("the answer has names made to collide");

describe("an answer with names that were made to collide is refused", () => {
  test("in a chat and in an event of a chat", () => {
    expect(() => parseAnswer(costly)).toThrow(refusal);
  });

  test("in a response", () => {
    expect(() => parseResponse(costly)).toThrow(refusal);
  });

  test("in an event of a response", () => {
    const event = Buffer.from(`data: ${costly}\n\n`);
    expect(() => new ResponsesDecoder().push(event)).toThrow(refusal);
  });

  test("in an error, which then has no details", () => {
    const text = JSON.stringify({ error: { message: "hello" }, names: collidingNames(500) });
    expect(errorOfReply(400, undefined, text, { values: [], hosts: [] }).clientError?.message).toBe(
      "invalid request",
    );
  });
});
