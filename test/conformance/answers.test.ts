import { describe, expect, test } from "bun:test";
import { call } from "../support/gateway/chatCalls.ts";
import { stream, text } from "../support/provider/scriptedProvider.ts";
import { answers, impossibleUsages } from "../providers/conformance/answers.ts";
import type { ExpectedAnswer } from "../providers/conformance/dialect.ts";
import { billedOf, receivedAnswerOf } from "../providers/conformance/reading.ts";
import { type Cell, chargeOf, helloBody, nameOf, openCellsBefore, servedCells } from "./cells.ts";
import type { ClientAnswer } from "./speakers/speaker.ts";
import { sample } from "../support/sample.ts";
import { ofEachFigure } from "../../src/contract/figures.ts";

const at = openCellsBefore();
const ROWS_IN_CI = 6;

/** In CI all for a provider's own interface, and a few for each other cell, not the same ones. */
function chosen<Value>(
  cell: Cell,
  rows: readonly (readonly [name: string, value: Value])[],
): typeof rows {
  if (cell.service === "native") return rows;
  return sample(rows, ROWS_IN_CI, ([name]) => `${nameOf(cell)} ${name}`);
}

/** What a client gets of an answer, and the record of its request. */
async function answered(cell: Cell, answer: ExpectedAnswer, isStream: boolean) {
  const { speaker, dialect, model } = cell;
  at.providers.first.answer = isStream
    ? stream(dialect.stream(answer))
    : text(dialect.json(answer));
  const key = await at.gateway.key();
  const body = helloBody(cell, model, isStream);
  const reply = await call(at.gateway, key, { path: speaker.path, body });
  expect([reply.status, reply.text]).toEqual([200, expect.any(String)]);
  const [record] = await at.gateway.records(key, 1);
  return { received: read(cell, reply.text, isStream), record };
}

function read({ speaker }: Cell, received: string, isStream: boolean): ClientAnswer {
  if (!isStream) return speaker.read(received);
  const result = speaker.readStream(received);
  if (result.ended !== "whole") throw new Error(`the stream failed: ${received}`);
  return result.answer;
}

describe.each(servedCells.map((cell) => [nameOf(cell), cell] as const))("%s", (_, cell) => {
  const { speaker, dialect } = cell;
  const isNative = cell.service === "native" && speaker.endpoint !== "chat";

  test.each([false, true])("brings every answer home, stream %p", async (isStream) => {
    const possible = Object.entries(answers).filter(([name]) => !(name in dialect.cannot));
    for (const [name, answer] of chosen(cell, possible)) {
      const { received, record } = await answered(cell, answer, isStream);
      const { usage } = answer;
      expect({ name, ...received }).toMatchObject({ name, ...receivedAnswerOf(answer) });
      expect({ name, ...record }).toMatchObject({
        name,
        endpoint: speaker.endpoint,
        status: "done",
        estimated: usage === undefined,
        ...(usage && { charge: chargeOf(dialect, usage) }),
      });
      // In the provider's own answer a missing usage is still missing.
      const isShown = usage !== undefined || !isNative;
      const billed = usage ? billedOf(dialect, usage) : tokensOf(record);
      expect([name, received.usage]).toEqual([name, isShown ? billed : undefined]);
    }
  });

  test.each([false, true])("charges no impossible usage, stream %p", async (isStream) => {
    for (const [name, usage] of chosen(cell, Object.entries(impossibleUsages))) {
      const answer = { text: "Hello", finish: "stop", usage } as const;
      const { received, record } = await answered(cell, answer, isStream);
      expect({ name, ...record }).toMatchObject({ name, status: "done", estimated: true });
      if (!isNative) expect([name, received.usage]).toEqual([name, tokensOf(record)]);
    }
  });
});

function tokensOf(record: Awaited<ReturnType<typeof answered>>["record"]): ClientAnswer["usage"] {
  return record && ofEachFigure(({ name }) => record[name]);
}
