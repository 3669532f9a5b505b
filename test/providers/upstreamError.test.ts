import { expect, test } from "bun:test";
import { AnswerError, MisfireError } from "../../src/providers/provider.ts";
import { upstreamErrorOf } from "../../src/providers/upstream.ts";
import { errorClass } from "../../src/telemetry/log.ts";

test("the log tells a model that misfired from a provider that answers nonsense", () => {
  const logged = (error: Error) => errorClass(upstreamErrorOf(error).cause);
  expect(logged(new MisfireError("the answer is nested too deep"))).toBe("MisfireError");
  expect(logged(new AnswerError("the answer is not JSON"))).toBe("AnswerError");
});
