import type { ProviderConfig } from "../../config/schema.ts";
import { ConnectionError, reachHost } from "../../providers/upstream.ts";
import { dialAdvice } from "../dialAdvice.ts";
import type { KnownConfig } from "./config.ts";
import { failed, passed, type Verdict } from "./verdict.ts";

/** All are dialled at once, so this is what the dead ones cost together. */
const REACHED_WITHIN_MS = 5000;

/** Whether each provider can be connected to, by the way of its requests; nothing is sent to it. */
export async function examineProviders({ config, plainSecrets }: KnownConfig): Promise<Verdict> {
  // Without the secrets nobody knows through which proxy, and by which authority, a provider is reached.
  if (plainSecrets === undefined) {
    return failed("not looked at, for the config has problems: mend them first");
  }
  const { providers } = config;
  if (providers.length === 0) return passed("the config has none");
  const found = await Promise.all(providers.map(problemOf));
  const problems = found.filter((problem) => problem !== undefined);
  const notes = providers.filter((one, at) => found[at] === undefined && isBehindPlainProxy(one));
  const reached = `${providers.length - problems.length} of ${providers.length} can be connected to`;
  const lines = [
    `${reached}; \`tollgate check --live\` asks each route for a token`,
    ...problems,
    ...notes.map(({ id }) => `${id}: its proxy was reached, what lies beyond it was not tried`),
  ];
  return problems.length > 0 ? failed(...lines) : passed(...lines);
}

/** Undefined: it is there. */
async function problemOf(provider: ProviderConfig): Promise<string | undefined> {
  const connectTimeoutMs = Math.min(provider.connectTimeoutMs, REACHED_WITHIN_MS);
  try {
    await reachHost({ ...provider, connectTimeoutMs });
    return undefined;
  } catch (error) {
    if (!(error instanceof ConnectionError)) throw error;
    const advice =
      dialAdvice(error, { ...provider, connectTimeoutMs }) ??
      "cannot connect: check base_url and the network";
    return `${provider.id}: ${advice}`;
  }
}

function isBehindPlainProxy({ baseUrl, proxyUrl }: ProviderConfig): boolean {
  return proxyUrl !== undefined && baseUrl.startsWith("http:");
}
