import { afterAll, beforeAll, expect, test } from "bun:test";
import { join } from "node:path";
import { formatRoubles } from "../../../src/lib/money.ts";
import { call, chat } from "../../support/gateway/chatCalls.ts";
import { openTestApp, type TestApp } from "../../support/gateway/testApp.ts";
import { answered } from "../../support/provider/chatAnswers.ts";
import { startProvider, type ScriptedProvider } from "../../support/provider/scriptedProvider.ts";
import { listWith, model, openSyncFolder, type SyncFolder } from "./priceSync.ts";

let folder: SyncFolder;
let provider: ScriptedProvider;
let gateway: TestApp;
beforeAll(async () => {
  folder = await openSyncFolder(model("gpt-5.4", "proxy"));
  expect((await folder.sync(await listWith(), "--yes", "--vendor", "proxy=openai")).status).toBe(0);
  provider = startProvider();
  gateway = await openTestApp({
    providers: { proxy: `http://127.0.0.1:${provider.port}/v1` },
    models: [
      {
        id: "gpt-5.4",
        routes: [{ provider: "proxy" }],
        settings: {
          rub_input_per_1m: undefined,
          rub_output_per_1m: undefined,
          rub_cached_input_per_1m: undefined,
          rub_cache_write_per_1m: undefined,
          context_tokens: 1_000_000,
        },
      },
    ],
    tables: `[pricing]\nfile = ${JSON.stringify(join(folder.folder, "prices.toml"))}\nmargin_percent = 20\n[currency]\nusd = 100\n`,
  });
}, 60_000);
afterAll(async () => {
  await gateway.close();
  provider.stop();
  await folder.remove();
});

/** At 100 roubles for a dollar and a margin of 20 %: thousandths of a rouble per 1,000,000, which are nano-roubles of one. */
test.each<
  readonly [what: string, prompt: number, tier: string | undefined, input: bigint, output: bigint]
>([
  ["a short prompt", 272_000, undefined, 300_000n, 1_800_000n],
  ["a long prompt", 272_001, undefined, 600_000n, 2_700_000n],
  ["flex", 1000, "flex", 150_000n, 900_000n],
  ["priority", 1000, "priority", 600_000n, 3_600_000n],
])("%s is charged by the file", async (_, prompt, tier, input, output) => {
  const key = await gateway.key({ balance: 10_000n * 1_000_000_000n });
  const usage = { prompt_tokens: prompt, completion_tokens: 10, total_tokens: prompt + 10 };
  provider.answer = answered({ usage, ...(tier && { service_tier: tier }) });
  const { status, id } = await chat(gateway, key, {
    model: "gpt-5.4",
    ...(tier && { service_tier: tier }),
  });
  expect(status).toBe(200);
  const { body } = await call(gateway, key, { method: "GET", path: `/v1/requests/${id}` });
  expect((body as { readonly cost_rub: string }).cost_rub).toBe(
    formatRoubles(BigInt(prompt) * input + 10n * output),
  );
});
