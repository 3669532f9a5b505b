import { localOrigin } from "../../config/address.ts";
import type { Listen } from "../../config/schema.ts";
import type { ProviderReport } from "../../contract/operator/providerReport.ts";

type Breakers = Pick<ProviderReport, "breakers" | "breakers_error">;
type Breaker = NonNullable<ProviderReport["breakers"]>[number];

const TIMEOUT_MS = 1000;
/** A gateway with a thousand models has less than this. */
const METRICS_BYTES_MAX = 16 * 1024 * 1024;
/** The lines that `telemetry/prometheus.ts` writes. A label has its quotes, backslashes and line breaks escaped. */
const STATE =
  /^tollgate_breaker_state\{provider="((?:[^"\\]|\\.)*)",model="((?:[^"\\]|\\.)*)"\} ([012])$/gm;
const STATES = ["closed", "half-open", "open"] as const;

/**
 * The circuit breakers of the running gateway, from its metrics listener. Never rejects: if it cannot be read, the reason
 * is in the answer. `fetch` suffices here: the console asks one address of the operator, one request at a time.
 */
export async function readBreakers(listen: Listen | undefined): Promise<Breakers> {
  if (listen === undefined) return { breakers: null, breakers_error: null };
  try {
    return { breakers: breakersIn(await readMetrics(listen)), breakers_error: null };
  } catch (error) {
    const reason = error instanceof Error ? error.message : String(error);
    const problem = `the metrics of the gateway cannot be read at ${nameOf(listen)}: ${reason}`;
    return { breakers: null, breakers_error: problem };
  }
}

async function readMetrics(listen: Listen): Promise<string> {
  const response = await fetch(`${localOrigin(listen)}/metrics`, {
    ...(listen.kind === "unix" && { unix: listen.path }),
    redirect: "manual",
    signal: AbortSignal.timeout(TIMEOUT_MS),
  });
  if (response.status !== 200) throw new Error(`status ${response.status}`);
  const pieces: Uint8Array[] = [];
  let length = 0;
  const body: AsyncIterable<Uint8Array> | undefined = response.body ?? undefined;
  for await (const bytes of body ?? []) {
    pieces.push(bytes);
    length += bytes.length;
    if (length > METRICS_BYTES_MAX) throw new Error("the answer is too large");
  }
  return Buffer.concat(pieces).toString();
}

function breakersIn(text: string): Breaker[] {
  return [...text.matchAll(STATE)].map(([, provider = "", model = "", state]) => ({
    provider: unescaped(provider),
    model: unescaped(model),
    state: STATES[Number(state)] ?? "closed",
  }));
}

/** https://prometheus.io/docs/instrumenting/exposition_formats/#comments-help-text-and-type-information */
function unescaped(label: string): string {
  return label.replaceAll(/\\(.)/g, (_, char: string) => (char === "n" ? "\n" : char));
}

function nameOf(listen: Listen): string {
  return listen.kind === "unix" ? listen.path : localOrigin(listen);
}
