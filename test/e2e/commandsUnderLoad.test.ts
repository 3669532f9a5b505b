import { afterEach, beforeAll, expect, test } from "bun:test";
import { openBinaryBefore } from "../support/binary/gatewayBefore.ts";
import {
  answerOnlyPrices,
  ANSWER_TOKENS,
  wholeAnswer,
} from "../support/gateway/answerOnlyPrices.ts";
import { chat } from "../support/gateway/chatCalls.ts";
import { startProvider } from "../support/provider/scriptedProvider.ts";
import { amount } from "../support/sample.ts";
import { several } from "../support/several.ts";

/** A whole answer costs one rouble. */
const TOKEN_NANO = 1_000_000_000 / ANSWER_TOKENS;
const ROUNDS = 1;
const CLIENTS = amount(4, 16);
const TIMEOUT_MS = 60_000 * ROUNDS;

/** A request with this field is answered when the test says so. */
const slow = { seed: 1 };
let asked = Promise.withResolvers<void>();
let mayAnswer = Promise.withResolvers<void>();

const provider = startProvider(async (peer, request) => {
  if (request.json["seed"] === slow.seed) {
    asked.resolve();
    await mayAnswer.promise;
  }
  await wholeAnswer(peer, request);
});
const setup = openBinaryBefore(
  answerOnlyPrices(`http://127.0.0.1:${provider.port}/v1`, TOKEN_NANO),
  provider,
);
beforeAll(() => setup.gateway.auditor.listenTo(provider));
afterEach(() => setup.gateway.expectAuditPasses());

interface Owner {
  readonly account: string;
  readonly keyId: string;
  readonly key: string;
}

/** An account with a key. `flags` are those of `keys create`. */
async function owner(
  account: string,
  { roubles = "0", overdraft = "0", flags = [] as readonly string[] } = {},
): Promise<Owner> {
  const { cli } = setup.gateway;
  await cli.json("accounts", "create", account, "--overdraft", overdraft);
  const made = await cli.json("keys", "create", "--account", account, ...flags);
  if (roubles !== "0") await cli.json("balance", "credit", account, roubles);
  const { id, key } = made as { id: string; key: string };
  return { account, keyId: id, key };
}

/** The next request gets `before`, then the command runs, and then the next one gets `after`. */
interface Change {
  readonly given: Parameters<typeof owner>[1];
  readonly before: number;
  readonly command: (owner: Owner, requestId: string) => readonly string[];
  readonly after: number;
}

const almostOne = "0.999999999";
const least = "0.000000001";
const changes: Readonly<Record<string, Change>> = {
  "revoked-key": {
    given: { roubles: "9" },
    before: 200,
    command: ({ keyId }) => ["keys", "revoke", keyId],
    after: 401,
  },
  "disabled-account": {
    given: { roubles: "9" },
    before: 200,
    command: ({ account }) => ["accounts", "disable", account],
    after: 401,
  },
  credit: {
    given: { roubles: almostOne },
    before: 402,
    command: ({ account }) => ["balance", "credit", account, least],
    after: 200,
  },
  debit: {
    given: { roubles: "2" },
    before: 200,
    command: ({ account }) => ["balance", "debit", account, least],
    after: 402,
  },
  "lower-budget": {
    given: { roubles: "9", flags: ["--budget", "5"] },
    before: 200,
    command: ({ keyId }) => ["keys", "set", keyId, "--budget", `1${almostOne.slice(1)}`],
    after: 402,
  },
  "higher-budget": {
    given: { roubles: "9", flags: ["--budget", almostOne] },
    before: 402,
    command: ({ keyId }) => ["keys", "set", keyId, "--budget", "1"],
    after: 200,
  },
  "lower-overdraft": {
    given: { overdraft: "2" },
    before: 200,
    command: ({ account }) => ["accounts", "set", account, "--overdraft", `1${almostOne.slice(1)}`],
    after: 402,
  },
  "higher-overdraft": {
    given: { overdraft: almostOne },
    before: 402,
    command: ({ account }) => ["accounts", "set", account, "--overdraft", "1"],
    after: 200,
  },
  "refund-for-the-balance": {
    given: { roubles: "1" },
    before: 200,
    command: (_, requestId) => ["balance", "refund", requestId],
    after: 200,
  },
  "refund-for-the-budget": {
    given: { roubles: "9", flags: ["--budget", "1"] },
    before: 200,
    command: (_, requestId) => ["balance", "refund", requestId],
    after: 200,
  },
};

/** Does the work while clients send requests one after another, each of which must succeed. */
async function underLoad(work: () => Promise<unknown>): Promise<void> {
  const { gateway, key } = setup;
  const load = { isOver: false };
  const clients = several(CLIENTS, async () => {
    while (!load.isOver) expect((await chat(gateway, { key })).status).toBe(200);
  });
  try {
    await work();
  } finally {
    load.isOver = true;
    await Promise.all(clients);
  }
}

async function inRounds(work: (round: number) => Promise<void>): Promise<void> {
  for (let round = 0; round < ROUNDS; round += 1) await work(round);
}

test(
  "what a command changes counts at the next request",
  async () => {
    const { gateway } = setup;
    await gateway.cli.json("balance", "credit", "alice", "1000000");
    const all = Object.entries(changes).map(([name, { given, before, command, after }]) =>
      inRounds(async (round) => {
        const one = await owner(`${name}-${round}`, given);
        const first = await chat(gateway, one);
        await gateway.cli.json(...command(one, first.id));
        await gateway.toldOfChanges();
        const second = await chat(gateway, one);
        expect([name, first.status, second.status]).toEqual([name, before, after]);
      }),
    );
    await underLoad(() => Promise.all(all));
  },
  TIMEOUT_MS,
);

test(
  "a debit takes what is free, and nothing that an open request holds",
  async () => {
    const { gateway } = setup;
    const { cli } = gateway;
    const work = async (round: number) => {
      asked = Promise.withResolvers<void>();
      mayAnswer = Promise.withResolvers<void>();
      const one = await owner(`held-${round}`, { roubles: "2" });
      const open = chat(gateway, one, slow);
      await asked.promise;
      const refused = await cli.run("balance", "debit", one.account, `1${least.slice(1)}`);
      expect(refused).toMatchObject({ status: 1, stdout: "" });
      await cli.json("balance", "debit", one.account, "1");
      mayAnswer.resolve();
      expect((await open).status).toBe(200);
      expect(await cli.json("balance", "show", one.account)).toMatchObject({ balance_rub: "0" });
    };
    await underLoad(() => inRounds(work));
  },
  TIMEOUT_MS,
);
