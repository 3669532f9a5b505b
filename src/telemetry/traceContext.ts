/** The trace that a request belongs to. Ids are lower-case hex. */
export interface TraceContext {
  readonly traceId: string;
  /** The span of the sender; undefined if the trace begins here. */
  readonly parentSpanId: string | undefined;
  /** The bits `SAMPLED` and `RANDOM`. */
  readonly flags: number;
  /** Values of other tracing systems, which are passed on. */
  readonly state: string | undefined;
}

/** The sender records the trace. */
export const SAMPLED = 1;
/** The trace id is random: https://www.w3.org/TR/trace-context-2/#random-trace-id-flag */
const RANDOM = 2;
const KNOWN_FLAGS = SAMPLED | RANDOM;

/** A later version may append fields: https://www.w3.org/TR/trace-context/#versioning-of-traceparent */
const TRACEPARENT = /^([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?$/;
const ONLY_ZEROS = /^0+$/;

/** https://www.w3.org/TR/trace-context/#tracestate-header-field-values */
const STATE_MEMBER =
  /^[a-z0-9][a-z0-9_*/@-]{0,255}=[\x20-\x2b\x2d-\x3c\x3e-\x7e]{0,255}[\x21-\x2b\x2d-\x3c\x3e-\x7e]$/;
const STATE_CHARS_MAX = 512;
const STATE_MEMBERS_MAX = 32;

/** Reads the client's headers. Undefined without a valid `traceparent`. An invalid `tracestate` is dropped. */
export function readTraceContext(
  traceparent: string | null,
  tracestate: string | null,
): TraceContext | undefined {
  const [, version, traceId = "", spanId = "", flags = "", more] =
    TRACEPARENT.exec(traceparent?.trim() ?? "") ?? [];
  if (version === undefined || version === "ff") return undefined;
  if (version === "00" && more !== undefined) return undefined;
  if (ONLY_ZEROS.test(traceId) || ONLY_ZEROS.test(spanId)) return undefined;
  return {
    traceId,
    parentSpanId: spanId,
    flags: Number.parseInt(flags, 16) & KNOWN_FLAGS,
    state: tracestate === null ? undefined : validState(tracestate),
  };
}

/** Begins a trace, which is recorded. */
export function newTraceContext(traceId: string): TraceContext {
  return { traceId, parentSpanId: undefined, flags: SAMPLED, state: undefined };
}

/** The headers of a request whose parent is this span. */
export function traceHeaders(
  { traceId, flags, state }: TraceContext,
  spanId: string,
): Readonly<Record<string, string>> {
  const traceparent = `00-${traceId}-${spanId}-0${flags}`;
  return state === undefined ? { traceparent } : { traceparent, tracestate: state };
}

function validState(text: string): string | undefined {
  if (text.length > STATE_CHARS_MAX) return undefined;
  const members = text
    .split(",")
    .map((member) => member.trim())
    .filter((member) => member !== "");
  if (members.length === 0 || members.length > STATE_MEMBERS_MAX) return undefined;
  return members.every((member) => STATE_MEMBER.test(member)) ? members.join(",") : undefined;
}
