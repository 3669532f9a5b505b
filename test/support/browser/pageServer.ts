import { join } from "node:path";

/** A server of a page of another site, whose script is `page.ts`. */
export interface PageServer {
  readonly port: number;
  stop(): void;
}

export function startPageServer(): PageServer {
  const html = '<!doctype html><link rel="icon" href="data:,"><script src="/page.js"></script>';
  const server = Bun.serve({
    port: 0,
    hostname: "127.0.0.1",
    routes: {
      "/": () => new Response(html, { headers: { "content-type": "text/html" } }),
      "/page.js": async () =>
        new Response(await bundledPage(), { headers: { "content-type": "text/javascript" } }),
    },
  });
  return { port: server.port ?? 0, stop: () => void server.stop(true) };
}

async function bundledPage(): Promise<string> {
  const entrypoint = join(import.meta.dir, "page.ts");
  const { outputs } = await Bun.build({ entrypoints: [entrypoint], target: "browser" });
  return (await outputs[0]?.text()) ?? "";
}
