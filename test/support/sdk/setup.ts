import { afterAll, afterEach, beforeAll, expect, spyOn, type Mock } from "bun:test";
import type { ProviderKind } from "../../../src/config/schema.ts";
import { formatRoubles } from "../../../src/lib/money.ts";
import { usage } from "../provider/chatAnswers.ts";
import { costOf, type GatewayConfig } from "../gateway/gatewayConfig.ts";
import {
  startGatewayProcess,
  startTimeoutMs,
  type GatewayProcess,
  type RequestRecord,
} from "../binary/gatewayProcess.ts";
import { startProvider, type ScriptedProvider } from "../provider/scriptedProvider.ts";
import type { Call, SdkResult } from "./client.ts";
import { answerByModel, models } from "./provider.ts";

/** A call over a wire of its own. */
export interface WiredCall extends Call {
  readonly wire: Wire;
}

/** The compiled gateway in front of a scripted provider, for an SDK that is to be proven. */
export interface SdkSetup {
  /** There from the first test on. */
  readonly gateway: GatewayProcess;
  readonly provider: ScriptedProvider;
  /** A call with the key of an account that has money, unless `changes` say otherwise. */
  call(model: string, changes?: Partial<Call>): WiredCall;
  /** The records of each request of a call, oldest first. */
  records(call: WiredCall): Promise<readonly RequestRecord[]>;
}

/** What every answer of the provider that ends well tells of its tokens, and what they cost. */
export const expectedUsage: SdkResult["usage"] = {
  prompt: usage.prompt_tokens,
  completion: usage.completion_tokens,
  cached: usage.prompt_tokens_details.cached_tokens,
};
export const cost = formatRoubles(
  costOf({ ...expectedUsage, cacheWrite: usage.prompt_tokens_details.cache_write_tokens }),
);

/** What may make an SDK tell somebody else of its work, if the one who runs the tests has set it. */
const tracingSwitches = ["LANGSMITH_TRACING", "LANGSMITH_TRACING_V2", "LANGCHAIN_TRACING_V2"];

/**
 * Opens a setup before the tests of the block, and closes it after them, when the audits must pass and nothing may be
 * held. Nothing in the process but the wires may reach anybody meanwhile.
 */
export function openSdkSetup(
  kind: ProviderKind = "openai",
  sections: NonNullable<GatewayConfig["sections"]> = {},
): SdkSetup {
  const provider = startProvider(answerByModel);
  let gateway: GatewayProcess | undefined;
  let key = "";
  let otherFetches: Mock<typeof fetch> | undefined;
  const switchesBefore = tracingSwitches.map((name) => [name, process.env[name]] as const);
  beforeAll(async () => {
    otherFetches = spyOn(globalThis, "fetch");
    for (const name of tracingSwitches) process.env[name] = "false";
    const local = { kind, base_url: `http://127.0.0.1:${provider.port}/v1` };
    const responses = kind === "openai";
    gateway = await startGatewayProcess({
      providers: { local, gone: { kind, base_url: "http://127.0.0.1:9/v1" } },
      models: [
        ...models.map((id) => ({ id, routes: [{ provider: "local", responses }] })),
        { id: "gone", routes: [{ provider: "gone", responses }] },
      ],
      sections: { billing: { disconnect_grace: "50ms" }, ...sections },
    });
    key = await gateway.key("alice", "100");
  }, startTimeoutMs);
  afterEach(() => {
    expect(otherFetches).not.toHaveBeenCalled();
    provider.forget();
  });
  afterAll(async () => {
    otherFetches?.mockRestore();
    for (const [name, value] of switchesBefore) {
      if (value === undefined) delete process.env[name];
      else process.env[name] = value;
    }
    await gateway?.close();
    provider.stop();
  });
  const opened = (): GatewayProcess => {
    if (gateway === undefined) throw new Error("the gateway is not open yet");
    return gateway;
  };
  return {
    get gateway() {
      return opened();
    },
    provider,
    call(model, changes) {
      const wire = openWire();
      const { fetch } = wire;
      return { baseUrl: `${opened().url}/v1`, apiKey: key, fetch, model, wire, ...changes };
    },
    records: ({ wire }) => Promise.all(wire.requests.map(({ id }) => opened().request(id))),
  };
}

/** What went over the wire for an SDK. */
export interface Wire {
  /** To be given to the SDK: reaches this machine only, and throws for any other. */
  readonly fetch: typeof fetch;
  /** Every request that the SDK made, tried again or not, with the id that the gateway gave it. */
  readonly requests: readonly { readonly status: number; readonly id: string }[];
}

// While an SDK is proven, the global one is watched, and must never be called.
const reach = globalThis.fetch;

function openWire(): Wire {
  const requests: { status: number; id: string }[] = [];
  const send = async (...[input, init]: Parameters<typeof fetch>): Promise<Response> => {
    const { href, hostname } = new URL(input instanceof Request ? input.url : input);
    if (hostname !== "127.0.0.1") throw new Error(`an SDK wants to reach ${href}`);
    const response = await reach(input, init);
    const { status, headers } = response;
    requests.push({ status, id: headers.get("x-request-id") ?? "" });
    return response;
  };
  return { fetch: Object.assign(send, { preconnect: reach.preconnect }), requests };
}
