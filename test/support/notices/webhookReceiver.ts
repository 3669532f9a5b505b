import { until } from "../until.ts";
import { testCertificate, type CertificateName } from "../provider/rawServer.ts";

/** A request as the receiver got it. */
export interface ReceivedWebhook {
  readonly path: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string;
}

/** A receiver of webhooks on real HTTP. */
export interface WebhookReceiver {
  readonly url: string;
  readonly port: number;
  readonly received: readonly ReceivedWebhook[];
  /** The statuses of the next answers, then of all others 204. `undefined`: no answer. */
  statuses: (number | undefined)[];
  /** The target of redirects. */
  location: string;
  /** Resolves when so many requests have come. */
  untilReceived(count: number): Promise<void>;
  stop(): void;
}

export function startReceiver({
  port = 0,
  certificate,
}: { port?: number; certificate?: CertificateName } = {}): WebhookReceiver {
  const received: ReceivedWebhook[] = [];
  const server = Bun.serve({
    hostname: "127.0.0.1",
    port,
    idleTimeout: 0,
    ...(certificate === undefined ? {} : { tls: testCertificate(certificate) }),
    async fetch(request) {
      const { pathname, search } = new URL(request.url);
      const headers = Object.fromEntries(request.headers);
      received.push({ path: pathname + search, headers, body: await request.text() });
      const status = receiver.statuses.length > 0 ? receiver.statuses.shift() : 204;
      if (status === undefined) return new Promise<Response>(() => undefined);
      const location = status >= 300 && status < 400 ? { location: receiver.location } : {};
      return new Response(null, { status, headers: location });
    },
  });
  const scheme = certificate === undefined ? "http://127.0.0.1" : "https://localhost";
  const receiver: WebhookReceiver = {
    url: `${scheme}:${server.port}/hook`,
    port: server.port ?? 0,
    received,
    statuses: [],
    location: "",
    untilReceived: (count) => until(`${count} webhooks`, () => received.length >= count),
    stop: () => void server.stop(true),
  };
  return receiver;
}
