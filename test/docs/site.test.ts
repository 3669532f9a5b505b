import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { existsSync } from "node:fs";
import { readdir } from "node:fs/promises";
import { join, resolve } from "node:path";
import { navigation } from "../../scripts/docs/navigation.ts";
import { chromiumPath, launchChromium } from "../support/browser/chromium.ts";

const root = resolve(import.meta.dir, "../..");
const site = join(root, "dist/docs");
const buildTimeoutMs = 5 * 60_000;
const isInstalled = existsSync(join(root, "scripts/docs/site/node_modules"));
if (!isInstalled) process.stderr.write("NOT RUN: the tests of the site: `bun run docs` was not\n");

describe.skipIf(!isInstalled)("the site", () => {
  const server = Bun.serve({
    port: 0,
    hostname: "127.0.0.1",
    async fetch({ url }) {
      const file = Bun.file(join(site, new URL(url).pathname));
      return (await file.exists()) ? new Response(file) : new Response(null, { status: 404 });
    },
  });
  afterAll(() => server.stop(true));

  beforeAll(async () => {
    const build = Bun.spawn([process.execPath, "scripts/docs/site.ts"], {
      cwd: root,
      stdio: ["ignore", "ignore", "inherit"],
    });
    expect(await build.exited).toBe(0);
  }, buildTimeoutMs);

  test("has each page, and loads nothing from elsewhere", async () => {
    const pages = ["index.md", ...navigation.flatMap(([, names]) => names)];
    for (const page of pages) {
      const html = await Bun.file(join(site, page.replace(/\.md$/, ".html"))).text();
      const loaded = [...html.matchAll(/<(?:script|link|img)[^>]* (?:src|href)="([^"]*)"/g)];
      expect(loaded.filter(([, address = ""]) => !address.startsWith("/"))).toEqual([]);
    }
  });

  test("has what the pages name", async () => {
    const names = await readdir(site, { recursive: true });
    expect(names).toContain("monitoring/alerts.yaml");
    expect(names).toContain("fleet/kubernetes/kustomization.yaml");
  });

  test.skipIf(chromiumPath === null)("finds a page by a word of it", async () => {
    const browser = await launchChromium();
    try {
      const page = await browser.newPage();
      await page.goto(new URL("/index.html", server.url).href);
      await page.getByRole("button", { name: "Search" }).first().click();
      await page.locator(".VPLocalSearchBox input").fill("ANTHROPIC_BASE_URL");
      await page.locator(".VPLocalSearchBox .result").first().click();
      await page.waitForURL(/\/clients\//);
      expect(await page.locator("h1").innerText()).toMatch(/Claude Code|Anthropic SDKs/);
    } finally {
      await browser.close();
    }
  });
});
