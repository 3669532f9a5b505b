/** Every header that an answer of the gateway's can have. */
const ownHeaders = new Set([
  "cache-control",
  "content-length",
  "content-type",
  "date",
  "request-id",
  "retry-after",
  "transfer-encoding",
  "vary",
  "x-accel-buffering",
  "x-request-id",
  "x-tollgate-cost-rub",
]);

/** The names of headers that are not the gateway's own: no provider's header may reach a client. */
export function foreignHeaders(headers: Headers): string[] {
  return [...headers.keys()].filter((name) => !ownHeaders.has(name));
}
