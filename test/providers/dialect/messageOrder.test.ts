import { expect, test } from "bun:test";
import type { RequestMessage } from "../../../src/contract/chat/chatRequestBody.ts";
import { inStrictOrder } from "../../../src/providers/dialect/messageOrder.ts";
import { cpuTimer } from "../../support/measurement.ts";

test("messages with fields of their own are joined in linear time", () => {
  const answers = Array.from({ length: 20_000 }, (_, at) => ({
    role: "assistant",
    content: "a",
    [`field${at}`]: at,
  }));
  const messages = [{ role: "user", content: "b" }, ...answers] as unknown as RequestMessage[];
  const spentMs = cpuTimer();
  const [, answer] = inStrictOrder(messages);
  // To copy the fields of all messages before at each one takes half a minute.
  expect(spentMs()).toBeLessThan(3_000);
  expect(answer).toMatchObject({ role: "assistant", field0: 0, field19999: 19_999 });
});
