import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { join } from "node:path";
import { formatRoubles, parseRoubles } from "../../../src/lib/money.ts";
import {
  startGatewayProcess,
  startTimeoutMs,
  type GatewayProcess,
  type RequestRecord,
} from "../../support/binary/gatewayProcess.ts";
import {
  claudeCodeAgent,
  codexAgent,
  opencodeOverChat,
  opencodeOverMessages,
  type Agent,
  type AgentResult,
} from "../../support/programs/agents.ts";
import {
  openProgramHome,
  programTestTimeoutMs,
  runProgram,
} from "../../support/programs/programRun.ts";
import { lastWords, startAgentProvider } from "../../support/programs/provider.ts";
import { cost, expectedUsage } from "../../support/sdk/setup.ts";
import { several } from "../../support/several.ts";
import { isLong } from "../../support/sample.ts";

/** Models by the interface that their only route has. */
const routes = {
  chat: { provider: "openai", responses: false },
  responses: { provider: "openai", responses: true },
  messages: { provider: "anthropic", responses: false },
} as const;

const rows: readonly (readonly [agent: Agent, model: keyof typeof routes])[] = [
  [codexAgent, "responses"],
  [opencodeOverChat, "chat"],
  [opencodeOverChat, "messages"],
  [opencodeOverMessages, "messages"],
  [opencodeOverMessages, "chat"],
  [claudeCodeAgent, "messages"],
  [claudeCodeAgent, "chat"],
  [claudeCodeAgent, "responses"],
  [codexAgent, "chat"],
];

/** Each program over the interface that it is made for. */
const rowsInCi = [
  [codexAgent, "responses"],
  [opencodeOverChat, "chat"],
  [claudeCodeAgent, "messages"],
] as const satisfies typeof rows;

const command = "echo made $((6 * 7)) > made.txt && cat made.txt";
/** What the command writes. It is no part of the command itself. */
const made = "made 42";
const credit = 100_000_000_000n;
const charge = parseRoubles(cost) ?? 0n;

describe("a program that works with tools", () => {
  const provider = startAgentProvider();
  let gateway: GatewayProcess;

  beforeAll(async () => {
    const base_url = `http://127.0.0.1:${provider.port}/v1`;
    gateway = await startGatewayProcess({
      providers: { openai: { base_url }, anthropic: { kind: "anthropic", base_url } },
      // They ask for answers of up to this length.
      // The requests of one conversation take one of the equal routes.
      models: Object.entries(routes).map(([id, route]) => ({
        id,
        routes: several(8, (at) => ({ ...route, model: `${id}-${at}`, priority: 1 })),
        settings: { max_output_tokens: 128_000 },
      })),
    });
  }, startTimeoutMs);
  afterAll(async () => {
    await gateway.close();
    provider.stop();
  });

  for (const [at, [agent, model]] of (isLong ? rows : rowsInCi).entries()) {
    const { program, endpoint } = agent;
    const what = `${program.name} uses a tool over ${endpoint}, its provider has ${model}`;
    if (program.missing !== undefined) {
      test.skip(`${what}: skipped, because ${program.missing}`, () => {});
      continue;
    }
    test(
      `${what}: it ends well, knows its usage, and is charged exactly`,
      async () => {
        const account = `user-${at}`;
        const key = await gateway.key(account, formatRoubles(credit));
        provider.serve(agent, command);
        expect(await work(agent, { url: gateway.url, key, model })).toEqual({
          text: lastWords,
          usage: {
            prompt: 2 * expectedUsage.prompt,
            cached: 2 * expectedUsage.cached,
            completion: 2 * expectedUsage.completion,
          },
          file: `${made}\n`,
        });
        const results = provider.requests.map(({ body }) => body.includes(made));
        expect(results).toEqual([false, true]);
        expect(new Set(provider.requests.map(({ json }) => json["model"])).size).toBe(1);
        const records = await gateway.cli.json("requests", "--account", account);
        const record = { endpoint, stream: true, status: "done", estimated: false, cost_rub: cost };
        expect(records).toMatchObject([record, record] satisfies Partial<RequestRecord>[]);
        expect(await gateway.cli.json("balance", "show", account)).toMatchObject({
          balance_rub: formatRoubles(credit - 2n * charge),
        });
        await gateway.expectAuditPasses();
      },
      programTestTimeoutMs,
    );
  }
});

/** Runs the agent in a new folder. `file` is what its tool wrote there. */
async function work(
  agent: Agent,
  to: { readonly url: string; readonly key: string; readonly model: string },
): Promise<AgentResult & { readonly file: string }> {
  const home = await openProgramHome();
  try {
    const start = agent.start({ ...to, prompt: "make the file", home: home.path });
    const { status, stdout, stderr } = await runProgram(home, start);
    if (status !== 0) throw new Error(`it ended with ${status}:\n${stdout}\n${stderr}`);
    const file = await Bun.file(join(home.workFolder, "made.txt")).text();
    return { ...agent.result(stdout), file };
  } finally {
    await home.remove();
  }
}
