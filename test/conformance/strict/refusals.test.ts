import { describe, expect, test } from "bun:test";
import { ofModels, rows } from "./refusalRows.ts";
import { strictServers } from "./servers.ts";
import { Refused, type Json, type StrictServer } from "./strictServer.ts";

/** What the server says to it: `200`, or its refusal. */
function verdict(server: StrictServer, path: string, body: Json): string {
  const headers = new Map([["anthropic-version", "2023-06-01"]]);
  try {
    server.check({ path, body, headers });
    return "200";
  } catch (error) {
    if (error instanceof Refused) return error.message;
    throw error;
  }
}

describe.each(strictServers.map((server) => [server.name, server] as const))(
  "%s",
  (name, server) => {
    for (const { path, good, bad } of rows[name] ?? []) {
      test(`takes a good request to ${path}`, () => {
        expect(good.map((body) => verdict(server, path, body))).toEqual(good.map(() => "200"));
      });
      test(`refuses in its words what is sent to ${path}`, () => {
        for (const [body, words] of bad) expect(verdict(server, path, body)).toContain(words);
      });
    }
    test("refuses what its model does not take", () => {
      for (const [, path, body, words] of ofModels.filter(([one]) => one === name)) {
        expect(verdict(server, path, body)).toContain(words);
      }
    });
  },
);
