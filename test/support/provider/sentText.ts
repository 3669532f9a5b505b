import type { EncodedRequest } from "../../../src/providers/provider.ts";

/** The text of a request's body, as a provider would get it. */
export function sentText({ body }: EncodedRequest): string {
  return typeof body === "string" ? body : Buffer.concat(body).toString();
}
