import { version } from "../../lib/version.ts";
import { createHttpClient, type HttpExchange } from "./client.ts";
import { ConnectionError } from "./connectionError.ts";

const CONNECT_TIMEOUT_MS = 10_000;

/**
 * Gets what stands at an address. The body is undefined if it is longer than `bytesMax`, or if the status is not 200.
 * Rejects with ConnectionError, also if the answer is not complete in time or is cut.
 */
export async function download(
  url: URL,
  { bytesMax, timeoutMs }: { readonly bytesMax: number; readonly timeoutMs: number },
): Promise<{ readonly status: number; readonly body: Uint8Array | undefined }> {
  const client = createHttpClient({
    baseUrl: url.origin,
    connectTimeoutMs: CONNECT_TIMEOUT_MS,
    headers: { "accept-encoding": "identity", "user-agent": `tollgate/${version()}` },
  });
  const answer = Promise.withResolvers<Uint8Array | undefined>();
  const enough = (): void => {
    answer.resolve(undefined);
    exchange.abort(new ConnectionError("closed", "the rest of the answer is not wanted"));
  };
  const exchange: HttpExchange = client.send(
    { method: "GET", path: url.pathname + url.search, headers: { accept: "*/*" }, body: "" },
    {
      responded: () => (exchange.status === 200 ? exchange.collect(bytesMax) : enough()),
      exceeded: enough,
      ended: (failure) =>
        failure === undefined ? answer.resolve(exchange.takeAll()) : answer.reject(failure),
    },
  );
  const timer = setTimeout(() => {
    exchange.abort(new ConnectionError("timeout", "the answer did not come in time"));
  }, timeoutMs);
  try {
    const body = await answer.promise;
    return { status: exchange.status ?? 0, body };
  } finally {
    clearTimeout(timer);
    client.close();
  }
}
