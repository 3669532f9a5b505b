import { Database } from "bun:sqlite";
import { afterAll, beforeAll, expect, spyOn, test } from "bun:test";
import { answerOnlyPrices, wholeAnswer } from "../../support/gateway/answerOnlyPrices.ts";
import { ask, chat } from "../../support/gateway/chatCalls.ts";
import { openBefore } from "../../support/gateway/gatewayUnderTest.ts";
import { chatBytes, connectRaw } from "../../support/gateway/rawClient.ts";
import type { TestKey } from "../../support/gateway/testApp.ts";
import { describeSqlite } from "../../support/testedEngines.ts";

const at = openBefore(["local"], ({ local }) => answerOnlyPrices(local));
const HEALTH = "GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n";

describeSqlite("a request that arrives in the turn of a read of the change counter", () => {
  /** The connection of a command, beside those of the gateway. */
  let command: Database;
  beforeAll(() => {
    command = new Database(at.gateway.path);
  });
  afterAll(() => command.close());

  const models = (key: string): string =>
    `GET /v1/models HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer ${key}\r\n\r\n`;

  /** Revokes the key, and then sends the rest of a request, in the turn in which the counter is read for another one. */
  function inTurnOfRead(key: TestKey, send: () => void): void {
    const { changes } = at.gateway.sqlite;
    const read = changes.read.bind(changes);
    const reading = spyOn(changes, "read").mockImplementation(() => {
      reading.mockRestore();
      const seq = read();
      command.run("UPDATE keys SET revoked_at = 0 WHERE public_id = ?", [key.id]);
      send();
      return seq;
    });
  }

  const chatText = (key: string): string => chatBytes(key, JSON.stringify(ask()));
  const half = (text: string): number => text.length >> 1;
  test.each<[string, (key: string) => string, (key: string) => string]>([
    ["on another connection", () => "", models],
    ["a chat on another connection", () => "", chatText],
    ["behind another one on its connection", () => HEALTH, chatText],
    [
      "and that began before",
      (key) => chatText(key).slice(0, half(chatText(key))),
      (key) => chatText(key).slice(half(chatText(key))),
    ],
  ])("is not served by that read: %s", async (_, begin, rest) => {
    at.providers.local.answer = wholeAnswer;
    const other = await at.gateway.key();
    const key = await at.gateway.key();
    for (const one of [other, key]) expect((await chat(at.gateway, one)).status).toBe(200);
    const [first, second] = [await connectRaw(at.gateway.port), await connectRaw(at.gateway.port)];
    for (const client of [first, second]) {
      client.send(models(other.key));
      expect((await client.response()).status).toBe(200);
    }
    inTurnOfRead(key, () => second.send(rest(key.key)));
    first.send(models(other.key));
    second.send(begin(key.key));
    expect((await first.response()).status).toBe(200);
    if (begin(key.key) === HEALTH) expect((await second.response()).status).toBe(200);
    expect((await second.response()).status).toBe(401);
    for (const client of [first, second]) client.fin();
  });
});
