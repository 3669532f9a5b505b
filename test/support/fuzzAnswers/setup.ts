import { describedBy } from "../gateway/apiDescription.ts";
import { chanceOf } from "../seededRandom.ts";
import {
  type ConfiguredModel,
  type GatewayConfig,
  type Section,
} from "../gateway/gatewayConfig.ts";
import { upstreamKey } from "../gateway/gatewayUnderTest.ts";
import type { RawPeer } from "../provider/rawServer.ts";
import { startProvider, type ReceivedRequest } from "../provider/scriptedProvider.ts";
import { until } from "../until.ts";
import type { AnswerCase, Delivery, Route } from "./answerCase.ts";
import { World } from "../world/world.ts";
import { AnswerJudge, type Verdict } from "./answerJudge.ts";
import { answerOfBackup } from "./answerContent.ts";
import { drawRoute } from "./drawCase.ts";

/** A world with providers that answer each request as its case says. */
export interface AnswersSetup {
  readonly world: World;
  readonly key: string;
  readonly judge: AnswerJudge;
  /** What clients received, with the provider that may have served each. */
  readonly verdicts: {
    readonly asked: string;
    readonly verdict: Verdict;
    readonly model: string;
  }[];
  /** Adds a provider for a connection; resolves when the gateway uses the config. */
  begin(connection: number): Promise<{ readonly route: Route; readonly model: string }>;
  /** The connection sends no further requests. */
  end(connection: number): void;
  /** Announces a case to the provider. The result ends it and returns how often the provider was asked. */
  expect(asked: AnswerCase): () => number;
}

/** The connections that share a config: the next config has new providers, whose health is unknown. */
const periodConnections = 128;
export const backupProvider = "next";
/** Far more than a run can cost, though providers report thousands of millions of tokens. */
const credit = "2000000000";

const longTimeouts = {
  first_byte_timeout: "30s",
  idle_timeout: "30s",
  total_timeout: "30s",
} as const;
const haste = {
  first_byte_timeout: "400ms",
  idle_timeout: "400ms",
  total_timeout: "700ms",
} as const;
/** The delay that time-outs alone can cause; the wait for a late usage is added. */
export const shortTimeoutsMs = 700 + 2000;

export async function openAnswers(seed: number): Promise<AnswersSetup> {
  const cases = new Map<number, { asked: AnswerCase; times: number }>();
  const over = new Set<number>();
  const problems: string[] = [];
  const faulty = startProvider(async (peer, request) => {
    if (faulty.requests.length > keptRequestsMax) faulty.forget();
    const number = caseNumberIn(request);
    const found = cases.get(number);
    if (found === undefined) {
      // With short time-outs the gateway may give up before a busy provider sees the request.
      if (!over.has(number)) problems.push(`an unknown case: ${request.text.slice(0, 1000)}`);
      return peer.fin();
    }
    found.times += 1;
    return deliver(peer, found.asked.delivery);
  });
  const backup = startProvider((peer, request) => {
    if (backup.requests.length > keptRequestsMax) backup.forget();
    return answerOfBackup(caseNumberIn(request))(peer, request);
  });
  const config = (period: number): GatewayConfig =>
    configOf(seed, period, { faulty: faulty.port, backup: backup.port });
  const parts = { seed, providers: [faulty, backup], config: config(0), problems };
  return await World.open(parts, async (world) => {
    const periods = new Periods(world, config);
    return {
      key: await world.gateway.key("alice", credit),
      judge: new AnswerJudge(await describedBy(world.gateway)),
      verdicts: [],
      async begin(connection: number) {
        await periods.open(connection);
        return { route: routeOf(seed, connection), model: nameOf(connection) };
      },
      end: (connection: number) => periods.close(connection),
      expect(asked: AnswerCase) {
        const one = { asked, times: 0 };
        cases.set(asked.number, one);
        return () => {
          cases.delete(asked.number);
          over.add(asked.number);
          return one.times;
        };
      },
    };
  });
}

const keptRequestsMax = 1000;

function caseNumberIn({ text }: ReceivedRequest): number {
  return Number(/case (\d+)\b/.exec(text)?.[1] ?? 0);
}

async function deliver(peer: RawPeer, { bytes, cuts, pauseMs, end }: Delivery): Promise<void> {
  let at = 0;
  for (const cut of [...cuts, bytes.length]) {
    await peer.send(bytes.subarray(at, cut));
    at = cut;
    if (pauseMs > 0) await Bun.sleep(pauseMs);
  }
  if (end !== "keep") peer[end]();
}

function routeOf(seed: number, connection: number): Route {
  return drawRoute(chanceOf(seed, connection));
}

/** Names come again, so that the gateway's figures by name do not grow without end. */
function nameOf(connection: number): string {
  return `m${connection % (2 * periodConnections)}`;
}

/** The connections of a period and of the one before it, some of which may be open. */
function configOf(
  seed: number,
  period: number,
  ports: { readonly faulty: number; readonly backup: number },
): GatewayConfig {
  const providers: Record<string, Section> = {
    [backupProvider]: { base_url: `http://127.0.0.1:${ports.backup}/v1`, ...longTimeouts },
  };
  const settings = { max_output_tokens: 100_000 };
  const models: ConfiguredModel[] = [
    { id: "small", routes: [{ provider: backupProvider }], settings },
  ];
  const first = Math.max(0, period - 1) * periodConnections;
  for (let connection = first; connection < (period + 1) * periodConnections; connection += 1) {
    const { kind, api, hasShortTimeouts, hasBackup } = routeOf(seed, connection);
    const id = nameOf(connection);
    providers[id] = {
      kind,
      // Another address is another provider.
      base_url: `http://127.0.0.1:${ports.faulty}/v${connection}`,
      api_key: upstreamKey,
      connect_timeout: "30s",
      ...(hasShortTimeouts ? haste : longTimeouts),
    };
    const route = { provider: id, api, responses: kind === "openai" };
    const routes = hasBackup ? [route, { provider: backupProvider }] : [route];
    models.push({ id, routes, settings });
  }
  return {
    sections: {
      // The cost of an answer in JSON is in its head.
      server: { listen: "127.0.0.1:0", sse_keepalive: "300ms", json_keepalive: false },
    },
    providers,
    models,
  };
}

/** Applies the configs of the periods one after the other, each when the one before the last is no longer used. */
class Periods {
  readonly #world: World;
  readonly #configOf: (period: number) => GatewayConfig;
  readonly #open = new Set<number>();
  #period = 0;
  #turn: Promise<void> = Promise.resolve();

  constructor(world: World, config: (period: number) => GatewayConfig) {
    this.#world = world;
    this.#configOf = config;
  }

  async open(connection: number): Promise<void> {
    this.#open.add(connection);
    const period = Math.floor(connection / periodConnections);
    this.#turn = this.#turn.then(() => this.#goOnTo(period));
    await this.#turn;
  }

  close(connection: number): void {
    this.#open.delete(connection);
  }

  async #goOnTo(period: number): Promise<void> {
    if (period <= this.#period) return;
    const first = (period - 1) * periodConnections;
    await until("old connections end", () =>
      [...this.#open].every((connection) => connection >= first),
    );
    await this.#world.reload(this.#configOf(period));
    this.#period = period;
  }
}
