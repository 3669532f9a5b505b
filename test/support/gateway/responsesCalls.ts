import { call, openCall, type OpenReply, type Reply } from "./chatCalls.ts";
import type { TestApp, TestKey } from "./testApp.ts";

const path = "/v1/responses";

/** Posts a minimal responses request with changes, or a given text. Reads the whole answer. */
export function respond(
  gateway: Pick<TestApp, "url">,
  key: Pick<TestKey, "key">,
  changes: object | string = {},
): Promise<Reply> {
  return call(gateway, key, { path, body: bodyOf(changes) });
}

/** The same for a stream that is read as it comes. */
export function openResponse(
  gateway: Pick<TestApp, "url">,
  key: Pick<TestKey, "key">,
  changes: object = {},
): Promise<OpenReply> {
  return openCall(gateway, key, { path, body: bodyOf({ stream: true, ...changes }) });
}

function bodyOf(changes: object | string): object | string {
  return typeof changes === "string" ? changes : { model: "small", input: "hello", ...changes };
}
