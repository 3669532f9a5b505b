// OTLP in its JSON form: https://opentelemetry.io/docs/specs/otlp/#json-protobuf-encoding
// Ids are hex, 64-bit numbers are texts, enums are numbers.

export type AttributeValue = string | number | boolean | readonly string[];
export type Attributes = Record<string, AttributeValue>;

/** https://github.com/open-telemetry/opentelemetry-proto/blob/main/opentelemetry/proto/trace/v1/trace.proto */
export const SERVER = 2;
export const CLIENT = 3;
const STATUS_ERROR = 2;

/** A span that ended. Times are milliseconds since 1970. */
export interface EndedSpan {
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
export function spanText({ startMs, endMs, attributes, isError, ...span }: EndedSpan): string {
  return JSON.stringify({
    ...span,
    startTimeUnixNano: nanoseconds(startMs),
    endTimeUnixNano: nanoseconds(endMs),
    attributes: keyValues(attributes),
    status: isError ? { code: STATUS_ERROR } : {},
  });
}

/** The body of a request with these spans, which are of one service. */
export function exportText(service: Attributes, version: string, spans: readonly string[]): string {
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
