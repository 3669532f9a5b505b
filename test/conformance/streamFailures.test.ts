import { describe, expect, test } from "bun:test";
import { call, type Reply } from "../support/gateway/chatCalls.ts";
import { costOf } from "../support/gateway/gatewayConfig.ts";
import type { TestKey } from "../support/gateway/testApp.ts";
import {
  cut,
  piece,
  stream,
  streamHead,
  type ProviderAnswer,
} from "../support/provider/scriptedProvider.ts";
import type { Dialect } from "../providers/conformance/dialect.ts";
import { receivedAnswerOf } from "../providers/conformance/reading.ts";
import {
  type Cell,
  helloBody,
  nameOf,
  openCellsBefore,
  servedCells,
  shortAnswer,
} from "./cells.ts";

const at = openCellsBefore();

async function send(cell: Cell): Promise<{ reply: Reply; key: TestKey }> {
  const key = await at.gateway.key();
  const body = helloBody(cell, cell.savedModel, true);
  return { reply: await call(at.gateway, key, { path: cell.speaker.path, body }), key };
}

/** The beginning of a stream: the events before any content, and the event with the first word. */
function beginning(dialect: Dialect): { readonly opening: string; readonly first: string } {
  const events = dialect.stream(shortAnswer).split(/(?<=\n\r?\n)/);
  const at = events.findIndex((event) => event.includes("Hello"));
  return { opening: events.slice(0, at).join(""), first: events[at] ?? "" };
}

/** How a stream breaks off after these bytes. */
const breaks: Readonly<Record<string, (dialect: Dialect, text: string) => ProviderAnswer>> = {
  "an error event": (dialect, text) => stream(text, dialect.error(500, "overloaded").event),
  "a connection that is reset": (_, text) => cut("reset", streamHead, piece(text)),
  "an end of the stream": (_, text) => stream(text),
};

/** A provider's own interface may have events that are not JSON, so they are passed on. */
const brokenEvents: typeof breaks = {
  "an event that is not JSON": (_, text) => stream(text, "data: {broken\n\n"),
};

describe.each(servedCells.map((cell) => [nameOf(cell), cell] as const))("%s", (_, cell) => {
  const { speaker, dialect, nextDialect } = cell;
  const { opening, first } = beginning(dialect);
  const isRelayed = cell.service === "native" && speaker.endpoint !== "chat";

  test("is saved by the next route before any content", async () => {
    for (const [name, breaksOff] of Object.entries(breaks)) {
      at.gateway.forgetFailures();
      at.providers.first.answer = breaksOff(dialect, opening);
      at.providers.second.answer = stream(nextDialect.stream(shortAnswer));
      const { reply, key } = await send(cell);
      expect([name, reply.status]).toEqual([name, 200]);
      expect({ name, ...speaker.readStream(reply.text) }).toMatchObject({
        name,
        ended: "whole",
        answer: receivedAnswerOf(shortAnswer),
      });
      expect(await at.gateway.records(key, 1)).toMatchObject([
        { status: "done", attemptCount: 2, charge: costOf(shortAnswer.usage) },
      ]);
    }
  });

  test("tells a failure after content in the client's form, and costs nothing", async () => {
    for (const [name, breaksOff] of Object.entries({
      ...breaks,
      ...(!isRelayed && brokenEvents),
    })) {
      at.gateway.forgetFailures();
      at.providers.first.answer = breaksOff(dialect, opening + first);
      at.providers.second.answer = stream(nextDialect.stream(shortAnswer));
      const { reply, key } = await send(cell);
      expect({ name, ...speaker.readStream(reply.text) }).toEqual({
        name,
        ended: "failed",
        type: speaker.endpoint === "messages" ? "api_error" : "provider_error",
        message: "upstream provider failure",
      });
      expect([name, reply.text]).toEqual([name, expect.stringContaining("Hello")]);
      expect(await at.gateway.records(key, 1)).toMatchObject([
        { status: "failed", attemptCount: 1, charge: 0n },
      ]);
    }
  });
});
