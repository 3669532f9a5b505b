import type { HttpClientOptions } from "./client.ts";
import { Connection } from "./connection.ts";
import { ConnectionError } from "./connectionError.ts";
import { connectionTarget } from "./connectionTarget.ts";

/**
 * Makes the connection over which a request would be sent, TLS with its certificate included, and closes it
 * again; nothing is asked over it. Behind a proxy an `http:` target itself is not reached: no more than the
 * proxy can be asked without a request. Rejects with ConnectionError, at the latest after `connectTimeoutMs`.
 */
export function reachHost(options: HttpClientOptions): Promise<void> {
  const { promise, resolve, reject } = Promise.withResolvers<void>();
  const target = connectionTarget(new URL(options.baseUrl), options);
  const connection = new Connection(target, {
    opened: () => resolve(),
    received() {},
    closed(_, failure) {
      reject(failure ?? new ConnectionError("closed", "the connection was closed"));
    },
  });
  return promise.finally(() => connection.close());
}
