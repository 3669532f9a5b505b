import { describe, expect, test } from "bun:test";
import { call } from "../support/gateway/chatCalls.ts";
import { stream, text, type ReceivedRequest } from "../support/provider/scriptedProvider.ts";
import { expectedOf, inTurns, withoutBlanks } from "../providers/conformance/asked.ts";
import type { Asked } from "../providers/conformance/dialect.ts";
import { requests, type RequestCase } from "../providers/conformance/requests.ts";
import {
  type Cell,
  nameOf,
  openCellsBefore,
  outputTokensMax,
  providersModel,
  servedCells,
  shortAnswer,
} from "./cells.ts";
import type { Speaker } from "./speakers/speaker.ts";
import { sample } from "../support/sample.ts";

const at = openCellsBefore();
const ROWS_IN_CI = 6;

/** Sends a request. Returns its answer and the requests that the provider got. */
async function sent({ speaker, dialect, model }: Cell, body: object) {
  at.providers.first.forget();
  const isStream = "stream" in body && body.stream === true;
  at.providers.first.answer = isStream
    ? stream(dialect.stream(shortAnswer))
    : text(dialect.json(shortAnswer));
  const key = await at.gateway.key();
  const reply = await call(at.gateway, key, {
    path: speaker.path,
    body: { model, ...body },
  });
  return { reply, received: [...at.providers.first.requests] };
}

/** What a provider was asked. */
function askedOf({ dialect }: Cell, request: ReceivedRequest | undefined): Asked {
  const [, path = ""] = /^POST \/v1(\/\S+) /.exec(request?.requestLine ?? "") ?? [];
  return dialect.asked({ path, body: request?.body ?? "" });
}

/** A choice of the tools that is the default may also be left out. */
function withoutDefaults({ toolChoice, ...asked }: Asked): Asked {
  return { ...asked, ...(toolChoice !== undefined && toolChoice !== "auto" && { toolChoice }) };
}

/** The cases that an interface can express, each meaning once. */
function casesFor(speaker: Speaker): readonly (readonly [string, RequestCase, object])[] {
  const bodies = new Map<string, readonly [string, RequestCase, object]>();
  for (const [name, request] of Object.entries(requests)) {
    const body = speaker.body(request);
    const text = JSON.stringify(body);
    if (body !== undefined && !bodies.has(text)) bodies.set(text, [name, request, body]);
  }
  return [...bodies.values()];
}

describe.each(servedCells.map((cell) => [nameOf(cell), cell] as const))("%s", (_, cell) => {
  const { speaker, dialect, service } = cell;

  test("asks the provider what the client asks, or refuses in words", async () => {
    // In CI all for a provider's own interface, and a few for each other cell, not the same ones.
    const cases = casesFor(speaker);
    const chosen = sample(cases, ROWS_IN_CI, ([name]) => `${nameOf(cell)} ${name}`);
    for (const [name, { asks }, body] of service === "native" ? cases : chosen) {
      const { reply, received } = await sent(cell, body);
      // Its own interface a provider judges by itself.
      const refused = service === "native" ? undefined : dialect.cannot[name];
      if (refused !== undefined) {
        const error = speaker.error({ status: 400, message: refused }, reply.id);
        expect([name, reply.status, reply.body, received]).toEqual([name, 400, error, []]);
        continue;
      }
      expect([name, reply.status, received.length]).toEqual([name, 200, 1]);
      const restated = speaker.restated(asks, service);
      const expected = expectedOf(dialect, restated, { model: providersModel, outputTokensMax });
      const ordered = service === "native" ? (asked: Asked) => asked : inTurns;
      const asked = withoutBlanks(withoutDefaults(askedOf(cell, received[0])));
      expect({ name, ...ordered(asked) }).toEqual({ name, ...ordered(withoutDefaults(expected)) });
    }
  });
});

test.each([
  ["chat", 29],
  ["responses", 20],
  ["messages", 20],
])("%s expresses most of the requests", (endpoint, count) => {
  const cell = servedCells.find(({ speaker }) => speaker.endpoint === endpoint);
  expect(cell && casesFor(cell.speaker).length).toBeGreaterThanOrEqual(count);
});
