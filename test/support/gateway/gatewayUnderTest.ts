import { afterAll, afterEach, beforeAll, expect } from "bun:test";
import { oneModel, type GatewayConfig, type Section } from "./gatewayConfig.ts";
import { startProvider, type ScriptedProvider } from "../provider/scriptedProvider.ts";
import { openTestApp, type TestApp, type TestKey } from "./testApp.ts";
import { answered } from "../provider/chatAnswers.ts";
import { chat } from "./chatCalls.ts";
import { isLong } from "../sample.ts";
import { until } from "../until.ts";

/** A gateway with its scripted providers, for the tests of one describe block or file. */
export interface GatewayUnderTest<Id extends string> {
  /** There from the first test on. */
  readonly gateway: TestApp;
  readonly providers: Readonly<Record<Id, ScriptedProvider>>;
}

/**
 * Opens a gateway before the tests of the block, and closes it after them. After each test nothing may be held, and the
 * providers and circuit breakers are reset. After the last one the audits must pass; in the long form after each, which
 * tells the test that left a problem.
 */
export function openBefore<Id extends string>(
  ids: readonly Id[],
  configOf: (urls: Readonly<Record<Id, string>>) => GatewayConfig,
): GatewayUnderTest<Id> {
  const started = ids.map((id) => [id, startProvider()] as const);
  const providers = Object.fromEntries(started) as Record<Id, ScriptedProvider>;
  const urls = Object.fromEntries(
    started.map(([id, { port }]) => [id, `http://127.0.0.1:${port}/v1`]),
  ) as Record<Id, string>;
  let gateway: TestApp | undefined;
  beforeAll(async () => {
    gateway = await openTestApp(configOf(urls));
    gateway.auditor.listenTo(...started.map(([, provider]) => provider));
  });
  afterEach(async () => {
    await (isLong ? gateway?.expectAuditPasses() : gateway?.expectRest());
    gateway?.forgetFailures();
    for (const [, provider] of started) provider.forget();
  });
  afterAll(async () => {
    await gateway?.close();
    for (const [, provider] of started) provider.stop();
  });
  return {
    get gateway() {
      if (gateway === undefined) throw new Error("the gateway is not open yet");
      return gateway;
    },
    providers,
  };
}

/** The same with the model `small` on one provider, `local`. */
export function openOneModelBefore(
  sections: NonNullable<GatewayConfig["sections"]> = {},
  settings: Section = {},
  modelSettings: Section = {},
): { readonly gateway: TestApp; readonly provider: ScriptedProvider } {
  const opened = openBefore(["local"], ({ local }) => ({
    ...oneModel(local, sections, modelSettings),
    providers: { local: { base_url: local, api_key: upstreamKey, ...settings } },
  }));
  return {
    get gateway() {
      return opened.gateway;
    },
    provider: opened.providers.local,
  };
}

/** The key with which the gateway comes to its one provider. */
export const upstreamKey = "sk-upstream-0123456789abcdef";

/** No request is open: a shutdown would end now, and the key's one slot is free. */
export async function expectNoRequestOpen(
  at: { readonly gateway: TestApp; readonly provider: ScriptedProvider },
  key: TestKey,
): Promise<void> {
  let isNoneOpen = false;
  void at.gateway.app.requests.whenIdle().then(() => (isNoneOpen = true));
  await until("no request is open", () => isNoneOpen);
  await at.gateway.expectAuditPasses();
  at.provider.answer = answered();
  expect((await chat(at.gateway, key)).status).toBe(200);
}
