import type { GatewayConfig } from "./gatewayConfig.ts";
import { startGatewayProcess, type GatewayProcess } from "./gatewayProcess.ts";

/** The compiled gateway with its only provider. */
export interface GatewayBefore {
  readonly gateway: GatewayProcess;
  /** Ends the gateway in good order and checks its books; the provider stops with it. */
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
