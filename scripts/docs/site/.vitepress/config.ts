/** The site of docs/. The pages stay plain Markdown, which GitHub shows too. */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { defineConfig } from "vitepress";
import { anchorOf } from "../../markdown.ts";
import { navigation } from "../../navigation.ts";

const site = join(import.meta.dirname, "..");
const root = join(site, "../../..");
const docs = join(root, "docs");

const titleOf = (page: string) => /^# (.*)$/m.exec(readFileSync(join(docs, page), "utf8"))?.[1];

export default defineConfig({
  title: "Tollgate",
  srcDir: docs,
  outDir: join(root, "dist/docs"),
  // The folder of the server that has the site, such as "/docs/".
  base: process.env["DOCS_BASE"] ?? "/",
  // Addresses of this machine are examples.
  ignoreDeadLinks: "localhostLinks",
  themeConfig: {
    search: { provider: "local" },
    outline: [2, 3],
    sidebar: navigation.map(([text, pages]) => ({
      text,
      collapsed: true,
      items: pages.map((page) => ({ text: titleOf(page), link: `/${page}` })),
    })),
  },
  markdown: {
    anchor: { slugify: anchorOf },
    // The highlighter does not know these. Their nearest relatives colour them well enough.
    languageAlias: { haproxy: "nginx", caddyfile: "nginx", crontab: "sh" },
  },
  // The pages are outside of this folder, so they would not find its packages.
  vite: {
    resolve: { alias: [{ find: /^vue(?=$|\/)/, replacement: join(site, "node_modules/vue") }] },
  },
});
