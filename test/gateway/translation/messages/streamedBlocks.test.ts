import { expect, test } from "bun:test";
import { StreamedBlocks } from "../../../../src/gateway/translation/messages/streamedBlocks.ts";
import { cpuTimer } from "../../../support/measurement.ts";

test("parts of many calls that come mixed take linear time", () => {
  const blocks = new StreamedBlocks();
  const callCount = 1000;
  const call = (index: number, text: string, first = {}) => ({
    tool_calls: [{ index, ...first, function: { name: "f", arguments: text } }],
  });
  const rounds = ['{"a":"', ...Array.from({ length: 200 }, () => "x"), '"}'];
  const spentMs = cpuTimer();
  let characters = 0;
  for (const text of rounds) {
    for (let index = 0; index < callCount; index += 1)
      characters += blocks.add(call(index, text, { id: `call_${index}` })).length;
  }
  characters += blocks.end().length;
  // To look at all that waits after each block takes three times as long.
  expect(spentMs()).toBeLessThan(4_000);
  expect(characters).toBeGreaterThan(callCount * rounds.length * 100);
});
