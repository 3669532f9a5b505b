import { expect, test } from "bun:test";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";

/** The addresses of names are in a file of the machine. Only root can give a process another one. */
const MOUNT = ["unshare", "-m", "sh", "-c"];
const isAllowed =
  process.getuid?.() === 0 &&
  Bun.which("unshare") !== null &&
  Bun.spawnSync([...MOUNT, "mount --bind /dev/null /etc/hosts"]).exitCode === 0;
if (!isAllowed) process.stderr.write("NOT RUN: no other addresses of names may be mounted here\n");

/** Sends a request to a name, moves its server to another address, and sends one more at once. */
const PROGRAM = `
  import { createHttpClient } from "./src/providers/http/client.ts";
  const answering = (name) => () => new Response(name, { headers: { connection: "close" } });
  const serve = (hostname, port) => Bun.serve({ hostname, port, fetch: answering(hostname) });
  const moveTo = (address) => Bun.write("/etc/hosts", address + " vendor.test\\n");
  const ask = () => new Promise((answered) => {
    const exchange = client.send({ path: "/", headers: {}, body: "" }, {
      responded: () => exchange.collect(1000),
      exceeded() {},
      ended: (failure) => answered(failure?.code ?? Buffer.from(exchange.takeAll()).toString()),
    });
  });
  const first = serve("127.0.0.2", 0);
  const { port } = first;
  await moveTo("127.0.0.2");
  const client = createHttpClient({ baseUrl: "http://vendor.test:" + port, connectTimeoutMs: 5000 });
  const answers = [await ask()];
  await first.stop(true);
  const second = serve("127.0.0.3", port);
  await moveTo("127.0.0.3");
  answers.push(await ask(), await ask());
  await second.stop(true);
  answers.push(await ask());
  console.log(answers.join(" "));
  process.exit();`;

test.skipIf(!isAllowed)(
  "a server that was moved to another address is found by the next request",
  async () => {
    const folder = mkdtempSync(join(tmpdir(), "tollgate-moved-"));
    try {
      await Bun.write(join(folder, "hosts"), "");
      const script = `mount --bind ${folder}/hosts /etc/hosts && exec "$@"`;
      const child = Bun.spawn([...MOUNT, script, "sh", process.execPath, "-e", PROGRAM], {
        cwd: resolve(import.meta.dir, "../../.."),
        stdout: "pipe",
        stderr: "inherit",
      });
      expect(await child.stdout.text()).toBe("127.0.0.2 127.0.0.3 127.0.0.3 refused\n");
    } finally {
      rmSync(folder, { recursive: true });
    }
  },
);
