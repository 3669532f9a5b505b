import { afterAll, beforeAll, expect, test } from "bun:test";

let target: ReturnType<typeof Bun.serve>;
let proxy: ReturnType<typeof Bun.serve>;

beforeAll(() => {
  const answer = (text: string) =>
    Bun.serve({ hostname: "127.0.0.1", port: 0, fetch: () => new Response(text) });
  target = answer("target");
  proxy = answer("proxy");
});

afterAll(async () => {
  await target.stop(true);
  await proxy.stop(true);
});

// A process of its own: the runtime may look at these variables once only.
async function answerInProcess(start: string): Promise<string> {
  const child = Bun.spawn({
    cmd: [
      process.execPath,
      "-e",
      `import { forgetProxyEnvironment } from "./src/config/load.ts";
       ${start}
       process.stdout.write(await (await fetch("http://127.0.0.1:${target.port}/")).text());`,
    ],
    cwd: `${import.meta.dir}/../..`,
    env: {
      ...process.env,
      HTTP_PROXY: `http://127.0.0.1:${proxy.port}`,
      http_proxy: `http://127.0.0.1:${proxy.port}`,
      NO_PROXY: undefined,
      no_proxy: undefined,
    },
    stdout: "pipe",
    stderr: "inherit",
  });
  return new Response(child.stdout).text();
}

test("the gateway ignores the proxies of the environment", async () => {
  expect(await answerInProcess("")).toBe("proxy");
  expect(await answerInProcess("forgetProxyEnvironment();")).toBe("target");
});
