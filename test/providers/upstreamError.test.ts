import { expect, test } from "bun:test";
import {
  AnswerError,
  ExcessiveAnswerError,
  IsolatedFailureError,
} from "../../src/providers/provider.ts";
import { upstreamErrorOf } from "../../src/providers/upstream.ts";
import { errorClass } from "../../src/telemetry/log.ts";

test("the log names an isolated failure, an invalid answer and an excessive answer apart", () => {
  const logged = (error: Error) => errorClass(upstreamErrorOf(error)?.cause);
  expect(logged(new IsolatedFailureError("the model could not answer"))).toBe(
    "IsolatedFailureError",
  );
  expect(logged(new ExcessiveAnswerError("the answer is nested too deep"))).toBe(
    "ExcessiveAnswerError",
  );
  expect(logged(new AnswerError("the answer is not JSON"))).toBe("AnswerError");
});
