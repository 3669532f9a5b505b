import { createMetricsServer } from "../../../src/http/server.ts";
import type { LiveFigures } from "../../../src/telemetry/metrics.ts";
import { createPrometheusMetrics } from "../../../src/telemetry/prometheus.ts";
import { call, chat } from "../gateway/chatCalls.ts";
import { embed } from "../gateway/embeddingsCalls.ts";
import { embeddingModel } from "../gateway/gatewayConfig.ts";
import { openTestApp, rouble, type TestApp } from "../gateway/testApp.ts";
import { answered, choice, usual } from "../provider/chatAnswers.ts";
import { embeds } from "../provider/embeddingsAnswers.ts";
import { refusal, startProvider, type ProviderAnswer } from "../provider/scriptedProvider.ts";

/** Gateways that have served good and bad requests. `await using` ends them. */
export interface BusyGateways extends AsyncDisposable {
  /** The URLs of their metrics. The first is a gateway with a SQLite file, the second has the figures of a replica. */
  readonly metricsUrls: readonly string[];
  /** Has one more request answered. */
  serve(): Promise<void>;
}

/** Providers by id, each with a model of the same name. */
const answers = {
  good: usual,
  costly: answered({ usage: { prompt_tokens: 1_000_000, completion_tokens: 1_000_000 } }),
  odd: answered({ choices: [choice({}, { finish_reason: "enough" })] }),
  vectors: embeds(),
  fails: refusal(500),
  unpaid: refusal(402),
  missing: refusal(404),
  limited: refusal(429),
} satisfies Readonly<Record<string, ProviderAnswer>>;

/** Figures that only a gateway on servers has, one that is blocked, or one with TLS. */
const replicaFigures: LiveFigures = {
  openRequests: 3,
  openStreams: 1,
  bodyBytes: 1000,
  disconnectedAnswers: 0,
  held: 5n * rouble,
  queuedWrites: 4,
  blockedBy: "unreachable",
  breakers: [{ provider: "good", model: "good", state: "closed" }],
  certificateExpiresAt: Date.now() + 3_600_000,
  notices: {
    account_low: 2,
    key_expires: 0,
    audit_failed: 1,
    provider_refused: 1,
    organization_refused: 0,
    provider_without_key: 0,
    service_expensive: 0,
    store_blocked: 0,
  },
  sharedLimits: { isUsed: false, byShare: 7 },
  replica: {
    id: 1,
    leaseAgeMs: 12_000,
    clockSkewMs: -3000,
    liveReplicas: 2,
    blocks: 3,
    reserved: 9n * rouble,
    transactions: 10,
    roundTrips: 20,
    lookUps: 1,
    lockedAccounts: 1,
    conflicts: 2,
  },
};

/** Starts the gateways. With each outcome that the rules and the dashboard name there is a series. */
export async function startBusyGateways(): Promise<BusyGateways> {
  const providers = Object.entries(answers).map(
    ([id, answer]) => [id, startProvider(answer)] as const,
  );
  const chats = Object.keys(answers).filter((id) => id !== "vectors");
  const gateway = await openTestApp({
    providers: Object.fromEntries(
      providers.map(([id, { port }]) => [id, `http://127.0.0.1:${port}/v1`]),
    ),
    models: [...chats.map((id) => ({ id, routes: [{ provider: id }] })), embeddingModel("vectors")],
    sections: { metrics: { listen: "127.0.0.1:0" } },
  });
  gateway.auditor.listenTo(...providers.map(([, provider]) => provider));
  await sendRequests(gateway, chats);
  const replica = serveReplicaFigures();
  return {
    metricsUrls: [gateway.metricsUrl, `http://127.0.0.1:${replica.port}/metrics`],
    async serve() {
      await chat(gateway, await gateway.key(), { model: "good" });
    },
    async [Symbol.asyncDispose]() {
      await replica.stop(true);
      await gateway.close();
      for (const [, provider] of providers) provider.stop();
    },
  };
}

async function sendRequests(gateway: TestApp, models: readonly string[]): Promise<void> {
  const key = await gateway.key();
  // One of them costs far more than a balance: the rest is written off.
  for (const model of models) await chat(gateway, await gateway.key(), { model });
  await chat(gateway, key, { model: "good", stream: true });
  await embed(gateway, key);
  await chat(gateway, { key: "wrong" });
  await call(gateway, key, { path: "/v1/models", method: "GET" });
  gateway.app.phase = "refusing";
  await chat(gateway, key, { model: "good" });
  gateway.app.phase = "serving";
}

function serveReplicaFigures(): Bun.Server<undefined> {
  const metrics = createPrometheusMetrics();
  metrics.watch(() => replicaFigures);
  const { server } = createMetricsServer(metrics).listen({ hostname: "127.0.0.1", port: 0 });
  if (server === null) throw new Error("the metrics of a replica have no server");
  return server;
}
