import { call, type Reply } from "./chatCalls.ts";
import type { TestApp, TestKey } from "./testApp.ts";

/** The least embeddings request, with what a test adds to it. */
export function embeddingsAsk(changes: object = {}): Record<string, unknown> {
  return { model: "vectors", input: "hello", ...changes };
}

/** Posts a minimal embeddings request with changes, or a given text. Reads the whole answer. */
export function embed(
  gateway: Pick<TestApp, "url">,
  key: Pick<TestKey, "key"> | undefined,
  changes: object | string = {},
): Promise<Reply> {
  const body = typeof changes === "string" ? changes : embeddingsAsk(changes);
  return call(gateway, key, { path: "/v1/embeddings", body });
}
