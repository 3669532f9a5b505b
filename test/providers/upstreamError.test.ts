import { expect, test } from "bun:test";
import { AnswerError, ExcessiveAnswerError, MisfireError } from "../../src/providers/provider.ts";
import { upstreamErrorOf } from "../../src/providers/upstream.ts";
import { errorClass } from "../../src/telemetry/log.ts";

test("the log tells a model that misfired from a provider that answers nonsense", () => {
  const logged = (error: Error) => errorClass(upstreamErrorOf(error)?.cause);
  expect(logged(new MisfireError("the model could not answer"))).toBe("MisfireError");
  expect(logged(new ExcessiveAnswerError("the answer is nested too deep"))).toBe("ExcessError");
  expect(logged(new AnswerError("the answer is not JSON"))).toBe("AnswerError");
});
