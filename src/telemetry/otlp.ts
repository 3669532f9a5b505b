import type { ProviderConfig } from "../config/schema.ts";
import type { Clock } from "../lib/clock.ts";
import type { Random } from "../lib/random.ts";
import { version } from "../lib/version.ts";
import type { Log } from "./log.ts";
import type { Metrics } from "./metrics.ts";
import { type Collector, SpanExport } from "./spanExport.ts";
import {
  newTraceContext,
  readTraceContext,
  SAMPLED,
  type TraceContext,
  traceHeaders,
} from "./traceContext.ts";
import type {
  RequestSpan,
  TracedAttempt,
  TracedOutcome,
  TracedReceipt,
  TracedRequest,
  Tracing,
} from "./tracing.ts";

/** What tracing uses of the gateway. */
export interface TracingServices {
  readonly clock: Clock;
  readonly random: Random;
  readonly log: Log;
  readonly metrics: Metrics;
}

/** Sends spans by OTLP/HTTP in JSON. This module is loaded only if `[telemetry]` is configured, to keep the start fast. */
export function createTracing(collector: Collector, services: TracingServices): Tracing {
  const own = version();
  const service = { "service.name": "tollgate", "service.version": own };
  const spans = new SpanExport(collector, (batch) => exportText(service, own, batch), services);
  const newId = idMaker(services.random);
  return {
    startRequest(request) {
      const context =
        readTraceContext(request.traceparent, request.tracestate) ??
        newTraceContext(newId(TRACE_ID_BYTES));
      return new OtlpRequestSpan(request, context, { clock: services.clock, newId, spans });
    },
    close: () => spans.close(),
  };
}

interface SpanTools {
  readonly clock: Clock;
  readonly newId: (bytes: number) => string;
  readonly spans: SpanExport;
}

/** The latest attempt of a request. */
interface AttemptSpan {
  readonly spanId: string;
  readonly name: string;
  readonly startMs: number;
  readonly attributes: Attributes;
  /** Undefined while it runs. */
  endMs: number | undefined;
  isError: boolean;
}

/** Attempts of one request follow each other. One is kept until the next begins or the request ends. */
class OtlpRequestSpan implements RequestSpan {
  readonly #context: TraceContext;
  readonly #tools: SpanTools;
  readonly #spanId: string;
  readonly #name: string;
  readonly #operation: string;
  readonly #attributes: Attributes;
  readonly #startMs: number;
  /** Adds to a time of the monotonic clock to get the time since 1970. The wall clock may jump during the request. */
  readonly #epochOffsetMs: number;
  #attempt: AttemptSpan | undefined;
  #isFailed = false;
  #hasEnded = false;

  constructor(request: TracedRequest, context: TraceContext, tools: SpanTools) {
    this.#context = context;
    this.#tools = tools;
    this.#spanId = tools.newId(SPAN_ID_BYTES);
    this.#epochOffsetMs = tools.clock.epochMs() - tools.clock.monotonicMs();
    this.#startMs = this.#nowMs();
    this.#name = `${request.method} ${request.path}`;
    this.#operation = OPERATIONS[request.endpoint] ?? "chat";
    // https://opentelemetry.io/docs/specs/semconv/http/http-spans/#http-server
    // Attributes of gen_ai are on the attempts only. Tools that add up tokens would count them twice.
    this.#attributes = {
      "http.request.method": request.method,
      "http.route": request.path,
      "url.path": request.path,
      "url.scheme": request.isSecure ? "https" : "http",
      "tollgate.request_id": request.requestId,
    };
  }

  startAttempt({ provider, model, stream }: TracedAttempt): Readonly<Record<string, string>> {
    this.#finishAttempt();
    const spanId = this.#tools.newId(SPAN_ID_BYTES);
    // https://opentelemetry.io/docs/specs/semconv/gen-ai/gen-ai-spans/#inference
    const attributes: Attributes = {
      "gen_ai.operation.name": this.#operation,
      "gen_ai.request.model": model,
      ...attributesOf(provider),
    };
    if (stream) attributes["gen_ai.request.stream"] = true;
    this.#attempt = {
      spanId,
      name: `${this.#operation} ${model}`,
      startMs: this.#nowMs(),
      attributes,
      endMs: undefined,
      isError: false,
    };
    return traceHeaders(this.#context, spanId);
  }

  endAttempt({ outcome, status }: TracedOutcome): void {
    const attempt = this.#attempt;
    if (!attempt) return;
    attempt.endMs = this.#nowMs();
    if (status !== null) attempt.attributes["http.response.status_code"] = status;
    if (outcome === "ok") return;
    attempt.isError = true;
    attempt.attributes["error.type"] = errorType(outcome);
  }

  answered(model: unknown, finishReasons: readonly unknown[]): void {
    const attributes = this.#attempt?.attributes;
    if (!attributes) return;
    const [name] = shortTexts([model]);
    if (name !== undefined) attributes["gen_ai.response.model"] = name;
    const reasons = shortTexts(finishReasons);
    if (reasons.length > 0) attributes["gen_ai.response.finish_reasons"] = reasons;
  }

  settled(receipt: TracedReceipt, model: string): void {
    const { status, usage, estimated, chargeRub, firstContentMs } = receipt;
    this.#isFailed = status === "failed";
    Object.assign(this.#attributes, {
      "tollgate.model": model,
      "tollgate.outcome": status,
      "tollgate.cost_rub": chargeRub,
      "tollgate.estimated": estimated,
    });
    const attributes = this.#attempt?.attributes;
    if (!attributes) return;
    if (firstContentMs !== undefined)
      attributes["gen_ai.response.time_to_first_chunk"] = firstContentMs / 1000;
    const { promptTokens, cachedTokens, cacheWriteTokens, completionTokens } = usage;
    // A failed attempt used nothing that is known.
    if (promptTokens + completionTokens === 0) return;
    attributes["gen_ai.usage.input_tokens"] = promptTokens;
    attributes["gen_ai.usage.output_tokens"] = completionTokens;
    if (cachedTokens > 0) attributes["gen_ai.usage.cache_read.input_tokens"] = cachedTokens;
    if (cacheWriteTokens > 0)
      attributes["gen_ai.usage.cache_write.input_tokens"] = cacheWriteTokens;
  }

  end(status: number): void {
    if (this.#hasEnded) return;
    this.#hasEnded = true;
    const lastError = this.#attempt?.attributes["error.type"];
    this.#finishAttempt();
    const attributes = this.#attributes;
    attributes["http.response.status_code"] = status;
    // A stream can fail after its status 200. A 4xx is no error of the server.
    const isError = status >= 500 || (this.#isFailed && status < 400);
    if (isError)
      attributes["error.type"] = status >= 500 ? String(status) : (lastError ?? "failed");
    this.#send({
      spanId: this.#spanId,
      parentSpanId: this.#context.parentSpanId,
      name: this.#name,
      kind: SERVER,
      startMs: this.#startMs,
      endMs: this.#nowMs(),
      attributes,
      isError,
    });
  }

  #finishAttempt(): void {
    const attempt = this.#attempt;
    if (!attempt) return;
    this.#attempt = undefined;
    this.#send({
      ...attempt,
      parentSpanId: this.#spanId,
      kind: CLIENT,
      endMs: attempt.endMs ?? this.#nowMs(),
    });
  }

  #send(span: Omit<Parameters<typeof spanText>[0], "traceId" | "traceState">): void {
    const { traceId, state, flags } = this.#context;
    if ((flags & SAMPLED) === 0) return;
    this.#tools.spans.add(spanText({ traceId, traceState: state, ...span }));
  }

  #nowMs(): number {
    return this.#epochOffsetMs + this.#tools.clock.monotonicMs();
  }
}

const TRACE_ID_BYTES = 16;
const SPAN_ID_BYTES = 8;
/** Random bytes are read for several ids at once. */
const BYTES_PER_READ = 1024;
/** The limit for a text that a provider chooses. */
const PROVIDER_TEXT_CHARS_MAX = 256;

/** Endpoints whose operation is not `chat`. */
const OPERATIONS: Readonly<Record<string, string>> = { embeddings: "embeddings" };

/** Random ids in hex. */
function idMaker(random: Random): (length: number) => string {
  let bytes: Uint8Array = new Uint8Array(0);
  let used = 0;
  return (length) => {
    if (used + length > bytes.length) {
      bytes = random.bytes(BYTES_PER_READ);
      used = 0;
    }
    used += length;
    return bytes.subarray(used - length, used).toHex();
  };
}

/** The texts among values of a provider, cut to their limit. */
function shortTexts(values: readonly unknown[]): readonly string[] {
  return values
    .filter((value) => typeof value === "string")
    .map((text) => text.slice(0, PROVIDER_TEXT_CHARS_MAX));
}

/** The status of the provider, or the outcome as the log and the metrics name it. */
function errorType(outcome: string): string {
  return /^status (\d{3})$/.exec(outcome)?.[1] ?? outcome;
}

/** The attributes of a provider, made once. */
const providerAttributes = new WeakMap<ProviderConfig, Attributes>();

function attributesOf(provider: ProviderConfig): Attributes {
  const known = providerAttributes.get(provider);
  if (known) return known;
  const { hostname, port, protocol } = new URL(provider.baseUrl);
  const attributes: Attributes = {
    "gen_ai.provider.name": providerName(provider, hostname),
    "tollgate.provider": provider.id,
    "server.address": hostname,
    "server.port": Number(port || (protocol === "https:" ? 443 : 80)),
  };
  providerAttributes.set(provider, attributes);
  return attributes;
}

/** Hosts of the kind openai that have a name in the convention. */
const KNOWN_HOSTS: readonly (readonly [RegExp, string])[] = [
  [/^api\.openai\.com$/, "openai"],
  [/\.openai\.azure\.com$/, "azure.ai.openai"],
  [/\.services\.ai\.azure\.com$/, "azure.ai.inference"],
  [/^api\.deepseek\.com$/, "deepseek"],
  [/^api\.groq\.com$/, "groq"],
  [/^api\.mistral\.ai$/, "mistral_ai"],
  [/^api\.moonshot\.(?:ai|cn)$/, "moonshot_ai"],
  [/^api\.perplexity\.ai$/, "perplexity"],
  [/^api\.x\.ai$/, "x_ai"],
];

/**
 * The name in the convention, else the id from the config:
 * https://opentelemetry.io/docs/specs/semconv/registry/attributes/gen-ai/
 */
function providerName({ kind, id }: ProviderConfig, host: string): string {
  if (kind === "anthropic") return "anthropic";
  if (kind === "gemini") return "gcp.gemini";
  return KNOWN_HOSTS.find(([pattern]) => pattern.test(host))?.[1] ?? id;
}

// OTLP in its JSON form: https://opentelemetry.io/docs/specs/otlp/#json-protobuf-encoding
// Ids are hex, 64-bit numbers are texts, enums are numbers.

type AttributeValue = string | number | boolean | readonly string[];
type Attributes = Record<string, AttributeValue>;

/** https://github.com/open-telemetry/opentelemetry-proto/blob/main/opentelemetry/proto/trace/v1/trace.proto */
const SERVER = 2;
const CLIENT = 3;
const STATUS_ERROR = 2;

/** A span that ended. Times are milliseconds since 1970. */
interface EndedSpan {
  readonly traceId: string;
  readonly spanId: string;
  readonly parentSpanId: string | undefined;
  readonly traceState: string | undefined;
  readonly name: string;
  readonly kind: typeof SERVER | typeof CLIENT;
  readonly startMs: number;
  readonly endMs: number;
  readonly attributes: Attributes;
  readonly isError: boolean;
}

/** One span as JSON. */
function spanText({ startMs, endMs, attributes, isError, ...span }: EndedSpan): string {
  return JSON.stringify({
    ...span,
    startTimeUnixNano: nanoseconds(startMs),
    endTimeUnixNano: nanoseconds(endMs),
    attributes: keyValues(attributes),
    status: isError ? { code: STATUS_ERROR } : {},
  });
}

/** The body of a request with these spans, which are of one service. */
function exportText(service: Attributes, version: string, spans: readonly string[]): string {
  const resource = JSON.stringify({ attributes: keyValues(service) });
  const scope = JSON.stringify({ name: "tollgate", version });
  return `{"resourceSpans":[{"resource":${resource},"scopeSpans":[{"scope":${scope},"spans":[${spans.join(",")}]}]}]}`;
}

/** Microseconds are exact in a number. */
function nanoseconds(ms: number): string {
  return `${Math.round(ms * 1000)}000`;
}

function keyValues(attributes: Attributes): object[] {
  return Object.entries(attributes).map(([key, value]) => ({ key, value: anyValue(value) }));
}

function anyValue(value: AttributeValue): object {
  if (typeof value === "string") return { stringValue: value };
  if (typeof value === "boolean") return { boolValue: value };
  if (typeof value !== "number") return { arrayValue: { values: value.map(anyValue) } };
  return Number.isInteger(value) ? { intValue: String(value) } : { doubleValue: value };
}
