import { version } from "../../lib/version.ts";
import { createHttpClient, type HttpClientOptions, type HttpExchange } from "./client.ts";
import { ConnectionError } from "./connectionError.ts";

/** The most bytes of an answer that are read. */
const ANSWER_BYTES_MAX = 64 * 1024;

export interface PosterOptions extends Omit<HttpClientOptions, "headers"> {
  readonly headers: Readonly<Record<string, string>>;
  readonly timeoutMs: number;
}

interface PosterAnswer {
  readonly status: number;
  /** It may be cut. */
  readonly body: Uint8Array;
}

/** Sends to one server that is not a provider: JSON, unless its headers name another type. */
export interface Poster {
  /** Rejects with ConnectionError. One request at a time. `headers` are of this request alone. */
  post(
    path: string,
    body: string,
    headers?: Readonly<Record<string, string>>,
  ): Promise<PosterAnswer>;
  /** Ends the request in flight, and closes the connection. */
  close(): void;
}

export function createPoster({ timeoutMs, headers, ...options }: PosterOptions): Poster {
  const client = createHttpClient({
    ...options,
    headers: {
      "content-type": "application/json",
      ...headers,
      "accept-encoding": "identity",
      "user-agent": `tollgate/${version()}`,
    },
  });
  let exchange: HttpExchange | undefined;
  const abort = (): void =>
    exchange?.abort(new ConnectionError("timeout", "the answer did not come in time"));
  return {
    async post(path, body, own = {}) {
      const answer = Promise.withResolvers<PosterAnswer>();
      const answered = (status: number): void =>
        answer.resolve({ status, body: exchange?.takeAll() ?? new Uint8Array() });
      const timer = setTimeout(abort, timeoutMs).unref();
      exchange = client.send(
        { path, headers: { accept: "application/json", ...own }, body },
        {
          responded: () => exchange?.collect(ANSWER_BYTES_MAX),
          exceeded() {
            answered(exchange?.status ?? 0);
            abort();
          },
          ended(failure) {
            const status = exchange?.status;
            if (status !== undefined) answered(status);
            else answer.reject(failure);
          },
        },
      );
      try {
        return await answer.promise;
      } finally {
        clearTimeout(timer);
        exchange = undefined;
      }
    },
    close() {
      abort();
      client.close();
    },
  };
}
