import OpenAI from "openai";
import { beforeAll, describe, expect, test } from "bun:test";
import type { DatabasePlace } from "../support/auditor/databaseRows.ts";
import type { Page } from "playwright-core";
import { openBinaryBefore } from "../support/binary/gatewayBefore.ts";
import { startTimeoutMs } from "../support/binary/gatewayProcess.ts";
import { chromiumPath, openChromiumBefore } from "../support/browser/chromium.ts";
import { showView, visitConsole } from "../support/browser/consoleVisit.ts";
import { narrow, sidewaysProblems } from "../support/browser/inspection.ts";
import { visit } from "../support/browser/visit.ts";
import {
  doneEvent,
  roleEvent,
  stopEvent,
  usageEvent,
  usual,
} from "../support/provider/chatAnswers.ts";
import { startProvider, stream } from "../support/provider/scriptedProvider.ts";
import { chatEvent } from "../support/provider/upstreamText.ts";
import { tamperAt } from "../support/store/gatewayDatabase.ts";

const markup = "<img/src=x/onerror=alert(1)>";
/** Markup, a mark that turns the text after it around, and more characters than any view has room for. */
const hostile = `${markup}\u202Eevil${"w".repeat(10_000)}`;
/** As long as a config takes it. */
const hostileModel = `${markup}${"w".repeat(200)}`;

const small = { viewport: narrow };
const chromium = openChromiumBefore();
const provider = startProvider(usual);
const setup = openBinaryBefore(
  {
    providers: { local: `http://127.0.0.1:${provider.port}/v1` },
    models: [{ id: hostileModel, routes: [{ provider: "local" }] }],
    sections: { page: { contact: "https://example.com/?a=<img>" } },
  },
  provider,
);
let request = "";
let keyId = "";

beforeAll(async () => {
  const { gateway, key } = setup;
  await gateway.cli.json("balance", "credit", "alice", "5", "--note", markup, "--ref", markup);
  await gateway.cli.json("vouchers", "create", "--amount", "5", "--note", markup);
  const client = new OpenAI({ baseURL: `${gateway.url}/v1`, apiKey: key, maxRetries: 0 });
  const messages = [{ role: "user" as const, content: "hello" }];
  const answer = await client.chat.completions
    .create({ model: hostileModel, messages })
    .withResponse();
  request = answer.request_id ?? "";
  keyId = ((await gateway.cli.json("requests", "show", request)) as { key_id: string }).key_id;
  gateway.signal("SIGTERM");
  await gateway.ended;
  await putIntoStore(gateway.place);
  await gateway.start();
}, startTimeoutMs);

/** What no command and no request lets through, as somebody who can write to the database may put it there. */
async function putIntoStore(place: DatabasePlace): Promise<void> {
  await tamperAt(
    place,
    `UPDATE accounts SET name = '${hostile}'`,
    `UPDATE keys SET label = '${hostile}'`,
    `UPDATE ledger SET note = '${hostile}', ref = coalesce(ref, '${hostile}')`,
    `UPDATE requests SET model = '${hostile}'`,
    `UPDATE daily_totals SET model = '${hostile}'`,
  );
}

/** Opens each view, and returns whether it scrolls sideways, and any element that a text has become. */
async function problemsOf(page: Page, fragments: readonly string[]): Promise<string[]> {
  const problems: string[] = [];
  for (const fragment of fragments) {
    await showView(page, fragment);
    problems.push(...(await sidewaysProblems(page)).map((problem) => `${fragment}: ${problem}`));
    const made = await page.evaluate<number>(`document.querySelectorAll("img, [onerror]").length`);
    if (made > 0) problems.push(`${fragment}: ${made} elements were made from text`);
  }
  return problems;
}

describe.skipIf(chromiumPath === null)("texts that attack who reads them are only text", () => {
  test("on the page", async () => {
    const work = async (page: Page): Promise<void> => {
      await page.getByRole("heading", { name: markup }).waitFor();
      const views = ["", "spend", "requests", `requests/${request}`, "models", "try", "connect"];
      expect(await problemsOf(page, views)).toEqual([]);
    };
    await visit(chromium.browser, `${setup.gateway.url}/#key=${setup.key}`, work, small);
  });

  test("in an answer of the chat", async () => {
    const said = chatEvent({ content: `**bold** ${hostile}` });
    provider.answer = stream(roleEvent, said, stopEvent, usageEvent, doneEvent);
    const work = async (page: Page): Promise<void> => {
      await page.goto(`${setup.gateway.url}/#/try`);
      await page.getByLabel("Message").fill(markup);
      await page.getByLabel("Message").press("Enter");
      await page.locator(".answer", { hasText: `**bold** ${markup}` }).waitFor();
      expect(await page.locator("img").count()).toBe(0);
      expect(await sidewaysProblems(page)).toEqual([]);
    };
    await visit(chromium.browser, `${setup.gateway.url}/#key=${setup.key}`, work, small);
  });

  test("on the console", async () => {
    const account = `accounts/${encodeURIComponent(hostile)}`;
    const views = ["", "accounts", account, "keys", `keys/${keyId}`, "requests"];
    views.push(`requests/${request}`, "providers", "vouchers", "audit");
    const work = async (page: Page): Promise<void> => {
      expect(await problemsOf(page, views)).toEqual([]);
    };
    await visitConsole(chromium.browser, setup.gateway.cli, work, small);
  });

  test("in a dialog of the console", async () => {
    const work = async (page: Page): Promise<void> => {
      await showView(page, `accounts/${encodeURIComponent(hostile)}`);
      await page.getByRole("button", { name: "Credit" }).click();
      await page.getByRole("dialog").getByText(markup).first().waitFor();
      expect(await sidewaysProblems(page)).toEqual([]);
    };
    await visitConsole(chromium.browser, setup.gateway.cli, work, small);
  });
});
