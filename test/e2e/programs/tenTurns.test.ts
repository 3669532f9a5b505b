import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { join } from "node:path";
import { strictServers } from "../../conformance/strict/servers.ts";
import { strictAnswer, type StrictServer } from "../../conformance/strict/strictServer.ts";
import {
  startGatewayProcess,
  startTimeoutMs,
  type GatewayProcess,
} from "../../support/binary/gatewayProcess.ts";
import {
  claudeCodeAgent,
  codexAgent,
  opencodeOverChat,
  type Agent,
  type Task,
} from "../../support/programs/agents.ts";
import { openProgramHome, runProgram } from "../../support/programs/programRun.ts";
import { lastWords } from "../../support/programs/provider.ts";
import { preparePicture, tenTurns } from "../../support/programs/tenTurns.ts";
import { startProvider, type ScriptedProvider } from "../../support/provider/scriptedProvider.ts";
import { isLong, sample } from "../../support/sample.ts";

const agents = [claudeCodeAgent, codexAgent, opencodeOverChat];
/** So many programs run at once. */
const CONCURRENT_RUNS = 2;
const runsTimeoutMs = 600_000;

/** A program over a server, with a provider and a model of its own. */
interface Pair {
  readonly agent: Agent;
  readonly server: StrictServer;
  readonly id: string;
  readonly model: string;
  readonly provider: ScriptedProvider;
}

const pairs = strictServers.flatMap((server, at) =>
  agents.map((agent, index): Pair => {
    const id = `p${at}-${index}`;
    // Claude Code decides by the id of a model what it sends. Others are strange to it, and all are to Codex.
    const isClaude = server.provider["kind"] === "anthropic";
    const model = isClaude ? `${id}/${server.route.model}` : id;
    return { agent, server, id, model, provider: startProvider() };
  }),
);
/** In CI one program is run over the first server of its own interface: all three work with tools in `agents.test.ts`. */
const agentsChosen = sample(agents, 1, ({ program }) => program.name);
const isChosen = ({ agent, server }: Pair): boolean =>
  isLong ||
  (agentsChosen.includes(agent) && server === strictServers.find((one) => isOwn(agent, one)));
const isOwn = (agent: Agent, { provider, route }: StrictServer): boolean => {
  const isAnthropic = provider["kind"] === "anthropic";
  if (agent === claudeCodeAgent) return isAnthropic;
  return !isAnthropic && (route["responses"] === true) === (agent === codexAgent);
};
const chosen = pairs.filter(isChosen);
const runnable = chosen.filter(({ agent }) => agent.program.missing === undefined);

describe("a program works for ten turns over a strict server", () => {
  let gateway: GatewayProcess;
  const runs = new Map<Pair, PromiseWithResolvers<Outcome>>(
    runnable.map((pair) => [pair, Promise.withResolvers<Outcome>()]),
  );

  beforeAll(async () => {
    gateway = await startGatewayProcess({
      providers: Object.fromEntries(
        pairs.map(({ id, server, provider }) => {
          const base_url = `http://127.0.0.1:${provider.port}/v1`;
          return [id, { base_url, ...server.provider }];
        }),
      ),
      models: pairs.map(({ id, model, server: { route, settings } }) => ({
        id: model,
        routes: [{ ...route, provider: id }],
        settings: { max_output_tokens: 32_000, ...settings },
      })),
    });
    const key = await gateway.key("user", "1000000");
    const waiting = runs.entries();
    const lane = async () => {
      for (const [pair, { resolve, reject }] of waiting) {
        await outcome(pair, { url: gateway.url, key }).then(resolve, reject);
      }
    };
    for (let at = 0; at < CONCURRENT_RUNS; at += 1) void lane();
    // A test that has not begun to wait would not count as one that handles it.
    for (const { promise } of runs.values()) promise.catch(() => {});
  }, startTimeoutMs);
  afterAll(async () => {
    await gateway.close();
    for (const { provider } of pairs) provider.stop();
  });

  for (const pair of chosen) {
    const { agent, server } = pair;
    const name = `${agent.program.name} over ${server.name}`;
    const run = runs.get(pair);
    if (run === undefined) {
      test.skip(`${name}: skipped, because ${agent.program.missing}`, () => {});
      continue;
    }
    test(
      name,
      async () => {
        expect(await run.promise).toEqual({
          refusals: [],
          text: lastWords,
          turns: 10,
          hasSeenPicture: true,
          overflows: 1,
          summaries: expect.any(Number) as number,
          file: [1, 2, 4, 5, 6, 7, 8, 9].map((turn) => `${turn}a\n`).join(""),
        });
        expect((await run.promise).summaries).toBeGreaterThan(0);
      },
      runsTimeoutMs,
    );
  }

  test("the audit passes", async () => {
    await Promise.allSettled([...runs.values()].map(({ promise }) => promise));
    await gateway.expectAuditPasses();
  });
});

interface Outcome {
  readonly refusals: readonly string[];
  readonly text: string;
  readonly turns: number;
  readonly hasSeenPicture: boolean;
  readonly overflows: number;
  readonly summaries: number;
  /** What its commands wrote. */
  readonly file: string;
}

/** Runs the program in a new folder until its task is done. */
async function outcome(
  { agent, server, model, provider }: Pair,
  to: Pick<Task, "url" | "key">,
): Promise<Outcome> {
  const home = await openProgramHome();
  try {
    await preparePicture(home.workFolder);
    const task = tenTurns(agent, server, home.workFolder);
    const refusals: string[] = [];
    provider.answer = strictAnswer(server, task.says, ({ message }) => refusals.push(message));
    const asked = { ...to, model, prompt: "do the work", home: home.path };
    let output = await runProgram(home, agent.start(asked));
    if (task.overflows > 0 && agent.goOn) {
      output = await runProgram(home, agent.goOn(asked));
    }
    const { text } = agent.result(output.stdout);
    const file = Bun.file(join(home.workFolder, "done.txt"));
    const { turns, hasSeenPicture, overflows, summaries } = task;
    const written = (await file.exists()) ? await file.text() : "";
    return { refusals, text, turns, hasSeenPicture, overflows, summaries, file: written };
  } finally {
    await home.remove();
  }
}
