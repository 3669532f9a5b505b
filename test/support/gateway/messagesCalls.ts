import { call, type Reply } from "./chatCalls.ts";
import type { TestApp, TestKey } from "./testApp.ts";

/** The least Messages request, with what a test adds to it. */
export function askMessage(changes: object = {}): Record<string, unknown> {
  return {
    model: "small",
    max_tokens: 100,
    messages: [{ role: "user", content: "hello" }],
    ...changes,
  };
}

/** Posts a Messages request and reads the whole answer, JSON or stream. A body that is a string is sent as it is. */
export function sendMessage(
  gateway: Pick<TestApp, "url" | "auditor">,
  key: Pick<TestKey, "key"> | undefined,
  changes: object | string = {},
  headers: Readonly<Record<string, string>> = {},
): Promise<Reply> {
  const body = typeof changes === "string" ? changes : askMessage(changes);
  return call(gateway, key, { path: "/v1/messages", body, headers });
}

/** The events of a stream of Messages: their names and their data. Comments are left out. */
export function messageEvents(
  text: string,
): readonly { name: string; data: Record<string, unknown> }[] {
  return text
    .split("\n\n")
    .filter((block) => block.startsWith("event: "))
    .map((block) => {
      const [first = "", second = ""] = block.split("\n");
      const data = JSON.parse(second.slice("data: ".length)) as Record<string, unknown>;
      return { name: first.slice("event: ".length), data };
    });
}
