import { afterAll, beforeAll, describe, expect, spyOn, test } from "bun:test";
import { withReservedMoney } from "../../../src/commands/cli/reservedMoney.ts";
import { openStore, type Store } from "../../../src/store/store.ts";
import { answerOnlyPrices, PRICE, wholeAnswer } from "../../support/gateway/answerOnlyPrices.ts";
import { ask, chat } from "../../support/gateway/chatCalls.ts";
import { openBefore } from "../../support/gateway/gatewayUnderTest.ts";
import { chatBytes, connectRaw } from "../../support/gateway/rawClient.ts";
import { rouble, type KeyOptions, type TestKey } from "../../support/gateway/testApp.ts";

const at = openBefore(["local"], ({ local }) => answerOnlyPrices(local));
const actor = { name: "tester", at: 0 };
const ROUNDS = 5;
const LOAD_TIMEOUT_MS = 60_000;
const HEALTH = "GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n";

/** The connection of a command, beside those of the gateway. */
let command: Store;
beforeAll(() => {
  command = openStore({ path: at.gateway.path, durability: "process", serving: false });
});
afterAll(() => command.close());

/** The next request gets `before`, then the command runs, and then the next one gets `after`. */
interface Case {
  readonly options: KeyOptions;
  readonly before: number;
  readonly change: (key: TestKey) => unknown;
  readonly after: number;
}

function changeBalance(kind: "credit" | "debit", amount: bigint) {
  return ({ account }: TestKey): Promise<unknown> =>
    withReservedMoney(command.admin, account, () =>
      command.admin.changeBalance(actor, { account, kind, amount, ref: null, note: null }),
    );
}

function setOverdraft(overdraft: bigint) {
  return ({ account }: TestKey): Promise<unknown> =>
    withReservedMoney(command.admin, account, () =>
      command.admin.setOverdraft(actor, account, overdraft),
    );
}

function refundLast({ account }: TestKey): unknown {
  const [last] = command.requests.list({ account, limit: 1 });
  const refund = { request: last?.id ?? "", amount: null, ref: null, note: null };
  return command.admin.refund(actor, refund);
}

const cases: readonly (readonly [string, Case])[] = [
  [
    "a revoked key",
    {
      options: {},
      before: 200,
      change: ({ id }) => command.admin.revokeKey(actor, id),
      after: 401,
    },
  ],
  [
    "a disabled account",
    {
      options: {},
      before: 200,
      change: ({ account }) => command.admin.setDisabled(actor, account, true),
      after: 401,
    },
  ],
  [
    "a credit",
    {
      options: { balance: PRICE - 1n },
      before: 402,
      change: changeBalance("credit", 1n),
      after: 200,
    },
  ],
  [
    "a debit",
    {
      options: { balance: 2n * PRICE },
      before: 200,
      change: changeBalance("debit", 1n),
      after: 402,
    },
  ],
  [
    "a lower budget",
    {
      options: { budget: 5n * PRICE },
      before: 200,
      change: ({ id }) => command.admin.changeKey(actor, id, { budget: 2n * PRICE - 1n }),
      after: 402,
    },
  ],
  [
    "a higher budget",
    {
      options: { budget: PRICE - 1n },
      before: 402,
      change: ({ id }) => command.admin.changeKey(actor, id, { budget: PRICE }),
      after: 200,
    },
  ],
  [
    "a lower overdraft",
    {
      options: { balance: 0n, overdraft: 2n * PRICE },
      before: 200,
      change: setOverdraft(2n * PRICE - 1n),
      after: 402,
    },
  ],
  [
    "a higher overdraft",
    {
      options: { balance: 0n, overdraft: PRICE - 1n },
      before: 402,
      change: setOverdraft(PRICE),
      after: 200,
    },
  ],
  [
    "a refund, for the balance",
    { options: { balance: PRICE }, before: 200, change: refundLast, after: 200 },
  ],
  [
    "a refund, for the budget",
    { options: { budget: PRICE }, before: 200, change: refundLast, after: 200 },
  ],
];

describe("what a command changes counts at the next request", () => {
  test.each(cases)("%s", async (_, { options, before, change, after }) => {
    at.providers.local.answer = wholeAnswer;
    const key = at.gateway.key(options);
    expect((await chat(at.gateway, key)).status).toBe(before);
    await change(key);
    expect((await chat(at.gateway, key)).status).toBe(after);
  });

  test(
    "all of them under load",
    async () => {
      at.providers.local.answer = wholeAnswer;
      const load = { isOver: false };
      const busy = at.gateway.key({ balance: 1000n * rouble });
      const clients = Array.from({ length: 16 }, async () => {
        while (!load.isOver) expect((await chat(at.gateway, busy)).status).toBe(200);
      });
      const outcomes = cases.map(async ([name, { options, before, change, after }]) => {
        for (let round = 0; round < ROUNDS; round += 1) {
          const key = at.gateway.key(options);
          const first = await chat(at.gateway, key);
          await change(key);
          const second = await chat(at.gateway, key);
          expect([name, first.status, second.status]).toEqual([name, before, after]);
        }
      });
      try {
        await Promise.all(outcomes);
      } finally {
        load.isOver = true;
        await Promise.all(clients);
      }
    },
    LOAD_TIMEOUT_MS,
  );
});

describe("a request that arrives after the change counter was read in a turn of the event loop", () => {
  const models = (key: string): string =>
    `GET /v1/models HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer ${key}\r\n\r\n`;

  /** Revokes the key, and then sends the rest of a request, in the turn in which the counter is read for another one. */
  function inTurnOfRead(key: TestKey, send: () => void): void {
    const { changes } = at.gateway.store;
    const read = changes.read.bind(changes);
    const reading = spyOn(changes, "read").mockImplementation(() => {
      reading.mockRestore();
      const seq = read();
      command.admin.revokeKey(actor, key.id);
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
    const other = at.gateway.key();
    const key = at.gateway.key();
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
