import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { PageResult, PageTask } from "./page.ts";

/** The path of Chromium; null if it is not installed. */
export const chromium = Bun.which("chromium") ?? Bun.which("google-chrome");

/** A server of the page `page.ts`. */
export interface PageServer {
  readonly port: number;
  /** Opens the page in a headless browser, under this name of the machine, and returns what the page reports. */
  open(host: string, task: PageTask): Promise<PageResult>;
  stop(): void;
}

export function startPageServer(): PageServer {
  let task: PageTask | undefined;
  let report: (result: PageResult) => void = () => {};
  const server = Bun.serve({
    port: 0,
    hostname: "127.0.0.1",
    routes: {
      "/": () =>
        new Response(
          '<!doctype html><link rel="icon" href="data:,"><script src="/page.js"></script>',
          {
            headers: { "content-type": "text/html" },
          },
        ),
      "/page.js": async () =>
        new Response(await bundledPage(), { headers: { "content-type": "text/javascript" } }),
      "/task": () => Response.json(task),
      "/result": {
        POST: async (request) => {
          report((await request.json()) as PageResult);
          return new Response();
        },
      },
    },
  });
  const { port = 0 } = server;
  return {
    port,
    async open(host, given) {
      task = given;
      const result = Promise.withResolvers<PageResult>();
      report = result.resolve;
      const profile = await mkdtemp(join(tmpdir(), "tollgate-browser-"));
      const browser = Bun.spawn([...commandOf(profile), `http://${host}:${port}/`], {
        stdout: "ignore",
        stderr: "ignore",
      });
      try {
        const isOver = browser.exited.then((code) => {
          throw new Error(`the browser ended with ${code} before the page reported`);
        });
        return await Promise.race([result.promise, isOver]);
      } finally {
        browser.kill();
        await browser.exited;
        await rm(profile, { recursive: true, force: true, maxRetries: 5 });
      }
    },
    stop: () => void server.stop(true),
  };
}

function commandOf(profile: string): string[] {
  const flags = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"];
  return [chromium ?? "", ...flags, "--no-first-run", `--user-data-dir=${profile}`];
}

async function bundledPage(): Promise<string> {
  const entrypoint = join(import.meta.dir, "page.ts");
  const { outputs } = await Bun.build({ entrypoints: [entrypoint], target: "browser" });
  return (await outputs[0]?.text()) ?? "";
}
