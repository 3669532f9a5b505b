import { afterAll, beforeAll } from "bun:test";
import type { GatewayConfig } from "../gateway/gatewayConfig.ts";
import { startGatewayProcess, startTimeoutMs, type GatewayProcess } from "./gatewayProcess.ts";

/** The compiled gateway with its only provider. */
export interface GatewayBefore {
  readonly gateway: GatewayProcess;
  /** Stops the gateway with SIGTERM and runs the audits; the provider stops with it. */
  close(): Promise<void>;
}

/** Starts the gateway before a provider, which is stopped where that fails. Close it, also after a failure. */
export async function startGatewayBefore(
  provider: { stop(): void },
  config: GatewayConfig,
): Promise<GatewayBefore> {
  try {
    const gateway = await startGatewayProcess(config);
    const close = (): Promise<void> => gateway.close().finally(() => provider.stop());
    return { gateway, close };
  } catch (error) {
    provider.stop();
    throw error;
  }
}

/** The compiled gateway for the tests of one describe block or file: both are there from the first test on. */
export interface BinaryUnderTest {
  readonly gateway: GatewayProcess;
  /** A key of alice, who has 1,000 roubles. */
  readonly key: string;
}

/**
 * Starts the compiled gateway before the tests around it. Behind them it ends in good order, its books are checked, and
 * its providers stop in any case.
 */
export function openBinaryBefore(
  config: GatewayConfig,
  ...providers: readonly { stop(): unknown }[]
): BinaryUnderTest {
  let gateway: GatewayProcess | undefined;
  let key = "";
  beforeAll(async () => {
    gateway = await startGatewayProcess(config);
    key = await gateway.key("alice", "1000");
  }, startTimeoutMs);
  afterAll(async () => {
    try {
      await gateway?.close();
    } finally {
      for (const provider of providers) await provider.stop();
    }
  });
  return {
    get gateway() {
      if (gateway === undefined) throw new Error("the gateway is not open yet");
      return gateway;
    },
    get key() {
      return key;
    },
  };
}
