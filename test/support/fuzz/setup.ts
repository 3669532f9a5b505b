import { describedBy } from "../gateway/apiDescription.ts";
import { chat } from "../gateway/chatCalls.ts";
import { usual } from "../provider/chatAnswers.ts";
import type { GatewayConfig } from "../gateway/gatewayConfig.ts";
import { redeem } from "../gateway/voucherCalls.ts";
import type { GatewayProcess } from "../binary/gatewayProcess.ts";
import { upstreamKey } from "../gateway/gatewayUnderTest.ts";
import { responds } from "../provider/responsesAnswers.ts";
import {
  startProvider,
  type ProviderAnswer,
  type ReceivedRequest,
} from "../provider/scriptedProvider.ts";
import { World } from "../world/world.ts";
import { Judge } from "./judge.ts";
import type { FuzzTargets } from "./validRequests.ts";

/** A world with a provider that always answers, and looks closely at what it is asked. */
export interface FuzzSetup {
  readonly world: World;
  readonly targets: FuzzTargets;
  readonly judge: Judge;
}

/** The provider's names of the models, by their public ids. */
const upstreamModels: Readonly<Record<string, string>> = {
  small: "small-of-the-provider",
  "vendor/large": "large-of-the-provider",
};

export async function openFuzz(seed: number): Promise<FuzzSetup> {
  let requestCount = 0;
  const problems: string[] = [];
  const provider = startProvider(async (peer, request) => {
    requestCount += 1;
    const wrong = wrongWith(request);
    if (wrong !== undefined)
      problems.push(`the provider got ${wrong}: ${JSON.stringify(request.text.slice(0, 1000))}`);
    if (provider.requests.length > KEPT_REQUESTS_MAX) provider.forget();
    if (requestCount % SLOW_EVERY === 0) await Bun.sleep(slowMs);
    await answerOf(request)(peer, request);
  });
  const config = configOf(`http://127.0.0.1:${provider.port}/v1`);
  return await World.open(
    { seed, providers: [provider], config, problems },
    async ({ gateway }) => {
      gateway.auditor.listenTo(provider);
      const targets = await targetsOf(gateway);
      return { targets, judge: new Judge(await describedBy(gateway)) };
    },
  );
}

const KEPT_REQUESTS_MAX = 1000;
/** Some answers are slow, so that an impatient client disconnects before. */
const SLOW_EVERY = 4;
const slowMs = 20;

/** More than all connections of a run can use: a refusal by this limit means that slots leak. */
const CONCURRENT_MAX = 500;

function configOf(baseUrl: string): GatewayConfig {
  return {
    sections: {
      // The API description does not list the page.
      server: { page: false },
      limits: { requests_per_minute: 0, concurrent_requests: CONCURRENT_MAX },
    },
    providers: { local: { base_url: baseUrl, api_key: upstreamKey } },
    models: Object.entries(upstreamModels).map(([id, model]) => ({
      id,
      routes: [{ provider: "local", model }],
    })),
  };
}

async function targetsOf(gateway: GatewayProcess): Promise<FuzzTargets> {
  const rich = await gateway.key("rich", "100000");
  const { id: revokedId, key: revoked } = (await gateway.cli.json(
    "keys",
    "create",
    "--account",
    "rich",
  )) as { id: string; key: string };
  await gateway.cli.json("keys", "revoke", revokedId);
  await gateway.toldOfChanges();
  const { id: receipt } = await chat(gateway, { key: rich });
  const vouchers = await gateway.cli.json("vouchers", "create", "--amount", "5");
  const [{ code }] = vouchers as [{ code: string }];
  await redeem(gateway, { key: rich }, code);
  return {
    models: Object.keys(upstreamModels),
    rich,
    poor: await gateway.key("poor", "0"),
    limited: await gateway.key("limited", "1000000", "--rpm", "60"),
    revoked,
    receipt,
    code,
  };
}

const chatLine = "POST /v1/chat/completions HTTP/1.1";
const responsesLine = "POST /v1/responses HTTP/1.1";

/** All headers that the gateway sends to a provider. */
const upstreamHeaders = [
  "accept",
  "accept-encoding",
  "authorization",
  "content-length",
  "content-type",
  "host",
  "user-agent",
  "x-request-id",
];

/** What no client may cause at a provider, whatever it sends. */
function wrongWith(request: ReceivedRequest): string | undefined {
  const headers = new Map(request.headers);
  if (![chatLine, responsesLine].includes(request.requestLine)) return "another request line";
  if (headers.size !== request.headers.length) return "a header twice";
  if (headers.get("authorization") !== `Bearer ${upstreamKey}`) return "another key";
  if (request.headers.some(([name]) => !upstreamHeaders.includes(name))) return "another header";
  try {
    const { model } = request.json;
    return Object.values(upstreamModels).includes(String(model)) ? undefined : "another model";
  } catch {
    return "no JSON";
  }
}

function answerOf(request: ReceivedRequest): ProviderAnswer {
  return request.requestLine === responsesLine ? responds() : usual;
}
