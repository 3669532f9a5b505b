import { beforeAll, describe, expect, test } from "bun:test";
import { exists, rm } from "node:fs/promises";
import { join } from "node:path";
import { binaryPath } from "../support/binary/binary.ts";
import { openCliFolder, type CliFolder } from "../support/binary/cli.ts";
import { configText, oneModel } from "../support/gateway/gatewayConfig.ts";
import { startGatewayProcess, startTimeoutMs } from "../support/binary/gatewayProcess.ts";

const config = oneModel("http://127.0.0.1:9/v1", { api: { allowed_tools: ["web_search"] } });
let binary: string;

beforeAll(async () => {
  binary = await binaryPath();
}, startTimeoutMs);

/** Writes files into a folder that the plain runtime would load: a preloaded script writes `marker`. */
async function layTraps({ folder }: Pick<CliFolder, "folder">): Promise<string> {
  const marker = join(folder, "preloaded");
  await Bun.write(
    join(folder, ".env"),
    "NODE_TLS_REJECT_UNAUTHORIZED=0\nTOLLGATE_CONFIG=/nowhere\n",
  );
  await Bun.write(join(folder, "bunfig.toml"), 'preload = ["./preload.ts"]\n');
  await Bun.write(join(folder, "preload.ts"), `await Bun.write(${JSON.stringify(marker)}, "");`);
  return marker;
}

async function run(cwd: string, command: readonly string[], environment: Record<string, string>) {
  const child = Bun.spawn([...command], {
    cwd,
    env: { PATH: process.env["PATH"] ?? "", ...environment },
    stdio: ["ignore", "pipe", "pipe"],
  });
  const [stdout, stderr, status] = await Promise.all([
    child.stdout.text(),
    child.stderr.text(),
    child.exited,
  ]);
  return { stdout, stderr, status };
}

describe("a .env and a bunfig.toml in the working directory", () => {
  test("are ignored by the gateway and by its commands", async () => {
    let marker = "";
    const gateway = await startGatewayProcess(config, {
      prepare: async (cli) => {
        marker = await layTraps(cli);
      },
    });
    try {
      expect((await fetch(`${gateway.url}/healthz`)).status).toBe(200);
      await gateway.key("alice", "1");
      expect(await exists(marker)).toBe(false);
      // The files work: the plain runtime loads them.
      await Bun.write(
        join(gateway.cli.folder, "plain.ts"),
        "console.log(process.env.TOLLGATE_CONFIG)",
      );
      const plain = await run(gateway.cli.folder, [process.execPath, "plain.ts"], {});
      expect(plain.stdout).toBe("/nowhere\n");
      expect(await exists(marker)).toBe(true);
      await rm(marker);
    } finally {
      await gateway.close();
    }
  });
});

describe("a proxy that the config takes from the environment", () => {
  test("is known to the gateway at its start and at a reload, though the runtime has forgotten it", async () => {
    const proxied = {
      ...config,
      providers: { local: { base_url: "http://127.0.0.1:9/v1", proxy: "${https_proxy}" } },
    };
    const environment = { https_proxy: "http://127.0.0.1:9" };
    const gateway = await startGatewayProcess(proxied, { environment });
    try {
      gateway.signal("SIGHUP");
      const line = await gateway.logged("the reload is over", ({ msg }) => msg.includes("config"));
      expect(line).toMatchObject({ msg: "config reloaded" });
    } finally {
      await gateway.close();
    }
  });
});

describe("an environment variable that changes the runtime without the config", () => {
  const traps = [
    ["BUN_OPTIONS", "--smol"],
    ["NODE_TLS_REJECT_UNAUTHORIZED", "0"],
  ] as const;
  const commands = [
    ["serve"],
    ["demo", "--listen", "127.0.0.1:0"],
    ["demo", "--provider-only", "--listen", "127.0.0.1:0"],
  ];
  const table = traps.flatMap(([name, value]) =>
    commands.map((words) => [name, words.join(" "), value, words] as const),
  );

  test.each(table)(
    "is refused with one line that names %s: tollgate %s",
    async (name, _, value, words) => {
      const cli = await openCliFolder(configText(config));
      try {
        const ended = await run(cli.folder, [binary, ...words], { [name]: value });
        expect(ended.status).toBe(1);
        expect(ended.stderr).toContain(`${name}:`);
        expect(ended.stderr.trimEnd().split("\n")).toHaveLength(1);
        expect(ended.stdout).toBe("");
      } finally {
        await cli.remove();
      }
    },
  );
});
