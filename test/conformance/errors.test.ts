import { describe, expect, test } from "bun:test";
import { call } from "../support/gateway/chatCalls.ts";
import { text } from "../support/provider/scriptedProvider.ts";
import type { Dialect } from "../providers/conformance/dialect.ts";
import { type Cell, helloBody, nameOf, openCellsBefore, servedCells } from "./cells.ts";
import type { ClientError } from "./speakers/speaker.ts";
import { sample } from "../support/sample.ts";

const at = openCellsBefore();

const words = "messages must not be empty";
const fullContext = "prompt is too long: 210000 tokens > 200000 maximum";
const unavailable: ClientError = { status: 502, message: "all providers unavailable" };

/** What a provider answers, and what the client gets then. */
interface ErrorCase {
  readonly name: string;
  readonly status: number;
  readonly headers?: Readonly<Record<string, string>>;
  readonly body: string | ((dialect: Dialect) => string);
  readonly error: (cell: Cell) => ClientError;
}

function inDialect(status: number, message = words): (dialect: Dialect) => string {
  return (dialect) => dialect.error(status, message).json;
}

const errorCases: readonly ErrorCase[] = [
  {
    name: "400 with its words",
    status: 400,
    body: inDialect(400),
    // Google has a number there, which is passed on.
    error: ({ routeKind }) => ({
      status: 400,
      message: words,
      ...(routeKind === "gemini" && { code: "400" }),
    }),
  },
  ...[400, 413, 422].map((status) => ({
    name: `${status} about a full context`,
    status,
    body: inDialect(status, fullContext),
    error: (): ClientError => ({
      status: 400,
      message: fullContext,
      code: "context_length_exceeded",
    }),
  })),
  {
    name: "401",
    status: 401,
    body: inDialect(401),
    error: () => ({ ...unavailable, retryAfter: 300 }),
  },
  {
    name: "404",
    status: 404,
    body: inDialect(404),
    // Only in the responses interface does the client name what the provider may not know.
    error: ({ speaker, service }) =>
      speaker.endpoint === "responses" && service === "native"
        ? { status: 404, message: "resource not found" }
        : unavailable,
  },
  {
    name: "429 with a time",
    status: 429,
    headers: { "retry-after": "7" },
    body: inDialect(429),
    error: () => ({ ...unavailable, retryAfter: 7 }),
  },
  { name: "500", status: 500, body: inDialect(500), error: () => unavailable },
  { name: "529", status: 529, body: inDialect(529), error: () => unavailable },
  { name: "an HTML page", status: 200, body: "<html>", error: () => unavailable },
  { name: "broken JSON", status: 200, body: '{"choices":[', error: () => unavailable },
];

describe.each(servedCells.map((cell) => [nameOf(cell), cell] as const))("%s", (_, cell) => {
  const { speaker, dialect } = cell;

  test.each([false, true])("tells an error in the client's form, stream %p", async (isStream) => {
    const chosen = sample(errorCases, 3, ({ name }) => `${nameOf(cell)} ${isStream} ${name}`);
    for (const { name, status, headers = {}, body, error } of chosen) {
      at.gateway.forgetFailures();
      const bytes = typeof body === "string" ? body : body(dialect);
      at.providers.first.answer = text(bytes, { status, headers });
      const key = await at.gateway.key();
      const asked = helloBody(cell, cell.model, isStream);
      const reply = await call(at.gateway, key, { path: speaker.path, body: asked });
      const expected = error(cell);
      const got = { status: reply.status, body: reply.body };
      expect({ name, ...got }).toEqual({
        name,
        status: expected.status,
        body: speaker.error(expected, reply.id),
      });
      const { retryAfter } = expected;
      const time = retryAfter === undefined ? null : String(retryAfter);
      expect([name, reply.headers.get("retry-after")]).toEqual([name, time]);
      expect(await at.gateway.records(key, 1)).toMatchObject([{ status: "failed", charge: 0n }]);
    }
  });
});
