import { expect } from "bun:test";
import { answered } from "./chatAnswers.ts";
import { chat } from "./chatCalls.ts";
import type { ScriptedProvider } from "./scriptedProvider.ts";
import type { TestApp, TestKey } from "./testApp.ts";
import { until } from "./until.ts";

/** Nothing of any request is left: a shutdown would end now, and the key's one place is free. */
export async function expectNothingOpen(
  at: { readonly gateway: TestApp; readonly provider: ScriptedProvider },
  key: TestKey,
): Promise<void> {
  let isNoneOpen = false;
  void at.gateway.app.requests.whenNone().then(() => (isNoneOpen = true));
  await until("no request is open", () => isNoneOpen, 1000);
  await at.gateway.checkBooks();
  at.provider.answer = answered();
  expect((await chat(at.gateway, key)).status).toBe(200);
}
