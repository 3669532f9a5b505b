/** Builds the site of docs/ in dist/docs: `bun run docs`. */
import { cp, readdir } from "node:fs/promises";
import { join, relative, resolve } from "node:path";

const root = resolve(import.meta.dir, "../..");
const docs = join(root, "docs");
const built = join(root, "dist/docs");

const vitepress = Bun.spawn(
  [process.execPath, "--bun", "node_modules/vitepress/bin/vitepress.js", "build"],
  {
    cwd: join(import.meta.dir, "site"),
    env: { ...process.env, NODE_ENV: "production" },
    stdio: ["ignore", "inherit", "inherit"],
  },
);
if ((await vitepress.exited) !== 0) process.exit(1);

// Pages name these files: settings to copy, the dashboard, the alerts.
for (const file of await readdir(docs, { recursive: true, withFileTypes: true })) {
  const path = relative(docs, join(file.parentPath, file.name));
  if (file.isFile() && !/\.(?:md|png)$/.test(path)) await cp(join(docs, path), join(built, path));
}
console.log(`the site is in ${built}`);
