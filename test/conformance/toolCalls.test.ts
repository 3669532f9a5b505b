import { describe, expect, test } from "bun:test";
import { answered, choice, doneEvent, usageEvent } from "../support/provider/chatAnswers.ts";
import { call, chunksOf } from "../support/gateway/chatCalls.ts";
import { stream, type ProviderAnswer } from "../support/provider/scriptedProvider.ts";
import { chatEvent } from "../support/provider/upstreamText.ts";
import { helloBody, nameOf, openCellsBefore, servedCells, type Cell } from "./cells.ts";
import type { ClientAnswer } from "./speakers/speaker.ts";
import {
  callEvents,
  excessRows,
  jsonRows,
  namelessRows,
  streamRows,
  type CallRow,
} from "./toolCallRows.ts";
import { sample } from "../support/sample.ts";

const at = openCellsBefore();
const ROWS_IN_CI = 6;
const cells = servedCells.filter(({ routeKind }) => routeKind === "openai");

/** In CI a few rows for each cell, not the same ones. */
function chosen<Row>(cell: Cell, rows: Readonly<Record<string, Row>>) {
  return sample(Object.entries(rows), ROWS_IN_CI, ([name]) => `${nameOf(cell)} ${name}`);
}

async function asked(cell: Cell, isStream: boolean) {
  const key = await at.gateway.key();
  const body = helloBody(cell, cell.model, isStream);
  return { key, reply: await call(at.gateway, key, { path: cell.speaker.path, body }) };
}

async function received(cell: Cell, answer: ProviderAnswer, isStream: boolean) {
  at.providers.first.answer = answer;
  const { reply } = await asked(cell, isStream);
  expect([reply.status, reply.text]).toEqual([200, expect.any(String)]);
  if (!isStream) return cell.speaker.read(reply.text);
  const result = cell.speaker.readStream(reply.text);
  if (result.ended !== "whole") throw new Error(`the stream failed: ${reply.text}`);
  return result.answer;
}

function expectCalls(
  { toolCalls, text, finish }: ClientAnswer,
  { calls, text: said = "" }: CallRow,
) {
  expect(toolCalls).toEqual(
    calls.map(({ id = expect.stringMatching(/^call_[\w-]{1,35}$/), ...called }) => ({
      id,
      ...called,
    })),
  );
  const ids = toolCalls.map((one) => (one as { id: string }).id);
  expect(new Set(ids).size).toBe(ids.length);
  expect([text, finish]).toEqual([said, "tool_calls"]);
}

describe.each(cells.map((cell) => [cell.speaker.endpoint, cell] as const))("%s", (_, cell) => {
  const rows = cell.speaker.endpoint === "messages" ? { ...streamRows, ...excessRows } : streamRows;
  test.each(chosen(cell, rows))("reads a stream: %s", async (__, row) => {
    // Some servers say `stop`, and some say nothing.
    const ends = [chatEvent({}, "tool_calls"), chatEvent({}, "stop"), ""];
    for (const end of ends) {
      const answer = stream(callEvents(row.deltas) + end + usageEvent + doneEvent);
      expectCalls(await received(cell, answer, true), row);
    }
  });

  test.each(chosen(cell, jsonRows))("reads a message in JSON: %s", async (__, row) => {
    for (const finish of ["tool_calls", "stop"]) {
      const message = { content: null, tool_calls: row.parts };
      const answer = answered({ choices: [choice(message, { finish_reason: finish })] });
      expectCalls(await received(cell, answer, false), row);
    }
  });

  const streamed = (parts: readonly object[]): ProviderAnswer =>
    stream(chatEvent({ tool_calls: parts }), chatEvent({}, "tool_calls"), usageEvent, doneEvent);

  describe.each([true, false])("a call without a name, stream %p", (isStream) => {
    test.each(chosen(cell, namelessRows))("never looks whole: %s", async (__, parts) => {
      const message = { content: null, tool_calls: parts };
      at.providers.first.answer = isStream
        ? streamed(parts)
        : answered({ choices: [choice(message)] });
      const { reply, key } = await asked(cell, isStream);
      if (reply.status === 200) expect(cell.speaker.readStream(reply.text).ended).toBe("failed");
      else expect(reply.status).toBe(502);
      expect(await at.gateway.records(key, 1)).toMatchObject([{ status: "failed", charge: 0n }]);
    });

    test("is no reason to leave the provider alone", async () => {
      const parts = namelessRows["no name"] ?? [];
      for (let times = 0; times < 8; times++) {
        const message = { content: null, tool_calls: parts };
        at.providers.first.answer = isStream
          ? streamed(parts)
          : answered({ choices: [choice(message)] });
        await asked(cell, isStream);
        expect(at.providers.first.requests.length).toBe(times + 1);
      }
    });
  });
});

test("a chat client gets parts that are regular as they came", async () => {
  const parts = [
    {
      index: 0,
      id: "a",
      type: "function",
      function: { name: "f", arguments: "" },
      extra_content: { google: { thought_signature: "s" } },
    },
    { index: 0, function: { arguments: "{}" }, more: 1 },
    { index: 1, id: "b", type: "builtin_function", function: { name: "$g", arguments: "{}" } },
  ];
  at.providers.first.answer = stream(
    ...parts.map((part) => chatEvent({ tool_calls: [part] })),
    chatEvent({}, "tool_calls"),
    usageEvent,
    doneEvent,
  );
  const [cell] = cells;
  if (!cell) throw new Error("no cell");
  const { reply } = await asked(cell, true);
  const shown = chunksOf(reply).flatMap(
    ({ choices }) => (choices as { delta: { tool_calls?: object[] } }[])[0]?.delta.tool_calls ?? [],
  );
  expect(shown).toEqual(parts);
});
