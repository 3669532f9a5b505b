import { ask } from "./chatCalls.ts";
import { chatBytes, connectRaw, type RawClient } from "./rawClient.ts";
import type { RawPeer } from "../provider/rawServer.ts";
import type { ScriptedProvider } from "../provider/scriptedProvider.ts";
import type { KeyOptions, TestApp, TestKey } from "./testApp.ts";

/** How a client closes its connection. */
export const disconnectWays = ["fin", "reset"] as const;

/** A chat request whose client and provider are controlled step by step. */
export interface SteppedChat {
  readonly key: TestKey;
  readonly client: RawClient;
  /** Does what a provider would do next. */
  readonly provide: (...pieces: readonly (string | Uint8Array)[]) => Promise<void>;
  /** Disconnects the client. Resolves when the gateway has noticed it. */
  readonly disconnect: (way?: (typeof disconnectWays)[number]) => Promise<void>;
  /** The provider's connection. */
  readonly peer: RawPeer;
  /** Settles when the gateway has closed its connection to the provider. */
  readonly givenUp: Promise<void>;
}

const NOTICE_MS = 20;

/** Sends a chat request with a new key. Resolves when the provider has received it. */
export async function beginChat(
  at: { readonly gateway: TestApp; readonly provider: ScriptedProvider },
  changes: object,
  options?: KeyOptions,
): Promise<SteppedChat> {
  const reached = Promise.withResolvers<RawPeer>();
  at.provider.answer = (peer) => reached.resolve(peer);
  const key = await at.gateway.key(options);
  const client = await connectRaw(at.gateway.port);
  client.send(chatBytes(key.key, JSON.stringify(ask(changes))));
  const peer = await reached.promise;
  return {
    key,
    client,
    async provide(...pieces) {
      for (const bytes of pieces) await peer.send(bytes);
    },
    async disconnect(way = "fin") {
      client[way]();
      await client.closed;
      // From outside it is not visible whether the gateway's socket has reported it.
      await Bun.sleep(NOTICE_MS);
    },
    peer,
    givenUp: peer.closed,
  };
}
