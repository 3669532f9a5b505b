import { describe, expect, test } from "bun:test";
import { parseResponse } from "../../src/gateway/responses.ts";
import { ResponsesDecoder } from "../../src/gateway/decoding/responsesDecoder.ts";
import { parseAnswer } from "../../src/providers/reportedFailure.ts";
import { errorOfReply } from "../../src/providers/errorReply.ts";
import { AnswerError } from "../../src/providers/provider.ts";
import { collidingNames } from "../support/provider/collidingNames.ts";

const costly = JSON.stringify({ object: "response", names: collidingNames(500) });
const refusal = new AnswerError("the answer has names made to collide");

describe("a provider's names that were made to collide are no answer", () => {
  test("of a chat, or an event of one", () => {
    expect(() => parseAnswer(costly)).toThrow(refusal);
  });

  test("of the responses interface", () => {
    expect(() => parseResponse(costly)).toThrow(refusal);
  });

  test("in an event of the responses interface", () => {
    const event = Buffer.from(`data: ${costly}\n\n`);
    expect(() => new ResponsesDecoder().push(event)).toThrow(refusal);
  });

  test("in an error, which then says nothing", () => {
    const text = JSON.stringify({ error: { message: "hello" }, names: collidingNames(500) });
    expect(errorOfReply(400, undefined, text, { values: [], hosts: [] }).clientError?.message).toBe(
      "invalid request",
    );
  });
});
