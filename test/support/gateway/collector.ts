import { until } from "../until.ts";

/** A span as the collector received it, with its attributes as plain values. */
export interface ReceivedSpan {
  readonly traceId: string;
  readonly spanId: string;
  readonly parentSpanId: string | undefined;
  readonly traceState: string | undefined;
  readonly name: string;
  readonly kind: "server" | "client" | undefined;
  readonly durationMs: number;
  readonly isError: boolean;
  readonly attributes: Readonly<Record<string, unknown>>;
}

/** The spans of one request: its own, and those of its attempts in their order. */
export interface ReceivedTrace {
  readonly request: ReceivedSpan;
  readonly attempts: readonly ReceivedSpan[];
}

/** A trace collector on real HTTP, which understands OTLP in JSON. */
export interface TestCollector {
  /** The base address. */
  readonly url: string;
  /** The bodies that it accepted, as text. */
  readonly bodies: readonly string[];
  /** The head of the latest request. */
  readonly latest: { readonly path: string; readonly headers: Headers } | undefined;
  /** Requests so far, refused ones included. */
  readonly requestCount: number;
  readonly spans: readonly ReceivedSpan[];
  /** The status of its answers. `undefined`: it does not answer. */
  status: number | undefined;
  /** Resolves with the spans of a request when they have come. */
  trace(requestId: string): Promise<ReceivedTrace>;
  stop(): void;
}

const KINDS = [undefined, undefined, "server", "client"] as const;

export function startCollector(): TestCollector {
  const bodies: string[] = [];
  const server = Bun.serve({
    hostname: "127.0.0.1",
    port: 0,
    idleTimeout: 0,
    async fetch(request) {
      const body = await request.text();
      requestCount += 1;
      latest = { path: new URL(request.url).pathname, headers: request.headers };
      if (collector.status === undefined) return new Promise<Response>(() => undefined);
      if (collector.status === 200) bodies.push(body);
      return Response.json({}, { status: collector.status });
    },
  });
  let requestCount = 0;
  let latest: TestCollector["latest"];
  const collector: TestCollector = {
    url: `http://127.0.0.1:${server.port}`,
    bodies,
    get latest() {
      return latest;
    },
    get requestCount() {
      return requestCount;
    },
    get spans() {
      return bodies.flatMap(spansIn);
    },
    status: 200,
    async trace(requestId) {
      const find = () =>
        collector.spans.find(({ attributes }) => attributes["tollgate.request_id"] === requestId);
      await until(`the trace of ${requestId}`, () => find() !== undefined);
      const request = find();
      if (!request) throw new Error("unreachable");
      const attempts = collector.spans.filter((span) => span.parentSpanId === request.spanId);
      return { request, attempts };
    },
    stop: () => void server.stop(true),
  };
  return collector;
}

interface OtlpValue {
  readonly stringValue?: string;
  readonly intValue?: string;
  readonly doubleValue?: number;
  readonly boolValue?: boolean;
  readonly arrayValue?: { readonly values: readonly OtlpValue[] };
}

interface OtlpSpan {
  readonly traceId: string;
  readonly spanId: string;
  readonly parentSpanId?: string;
  readonly traceState?: string;
  readonly name: string;
  readonly kind: number;
  readonly startTimeUnixNano: string;
  readonly endTimeUnixNano: string;
  readonly attributes: readonly { readonly key: string; readonly value: OtlpValue }[];
  readonly status: { readonly code?: number };
}

interface OtlpBody {
  readonly resourceSpans: readonly {
    readonly scopeSpans: readonly { readonly spans: readonly OtlpSpan[] }[];
  }[];
}

function spansIn(body: string): ReceivedSpan[] {
  const { resourceSpans } = JSON.parse(body) as OtlpBody;
  return resourceSpans
    .flatMap(({ scopeSpans }) => scopeSpans)
    .flatMap(({ spans }) => spans)
    .map((span) => ({
      traceId: span.traceId,
      spanId: span.spanId,
      parentSpanId: span.parentSpanId,
      traceState: span.traceState,
      name: span.name,
      kind: KINDS[span.kind],
      durationMs: Number(BigInt(span.endTimeUnixNano) - BigInt(span.startTimeUnixNano)) / 1e6,
      isError: span.status.code === 2,
      attributes: Object.fromEntries(span.attributes.map(({ key, value }) => [key, plain(value)])),
    }));
}

function plain(value: OtlpValue): unknown {
  if (value.arrayValue) return value.arrayValue.values.map(plain);
  if (value.intValue !== undefined) return Number(value.intValue);
  return value.stringValue ?? value.doubleValue ?? value.boolValue;
}
