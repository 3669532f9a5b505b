import { afterEach, beforeAll, describe, expect, test } from "bun:test";
import { closeSync, constants, existsSync, openSync, readSync } from "node:fs";
import { join } from "node:path";
import { binaryPath } from "../../support/binary/binary.ts";
import { openCliFolder, type CliFolder } from "../../support/binary/cli.ts";
import { configText } from "../../support/gateway/gatewayConfig.ts";
import { startTimeoutMs } from "../../support/binary/gatewayProcess.ts";
import { until } from "../../support/until.ts";

let binary: string;
let cli: CliFolder | undefined;
beforeAll(async () => {
  binary = await binaryPath();
}, startTimeoutMs);
afterEach(() => cli?.remove());

/** A desk whose commands run in a shell script; `"$@"` is the command. */
async function deskBehind(script: string): Promise<CliFolder> {
  cli = await openCliFolder(undefined, ["sh", "-c", script, "sh", binary]);
  return cli;
}

describe("the output of a command", () => {
  test.skipIf(!existsSync("/dev/full"))(
    "that cannot be written is an error, because it may contain a new key",
    async () => {
      const cli = await deskBehind('"$@" > /dev/full');
      for (const args of [["keys", "create", "--account", "alice"], ["keys", "list"], ["help"]]) {
        const { status, stderr } = await cli.run(...args);
        expect(status).toBe(1);
        expect(stderr).toStartWith(
          "error: the command succeeded, but its output could not be written (ENOSPC): free disk space",
        );
        expect(stderr).toContain("tollgate keys rotate");
        expect(stderr).toContain("if it had codes of vouchers, revoke these");
      }
    },
    20_000,
  );

  test("may be read only in part without an error", async () => {
    const cli = await deskBehind(
      'mkfifo gone; { read -r _ < gone; "$@"; echo "status $?" >&2; } | { exec <&-; echo now > gone; }',
    );
    expect((await cli.run("help")).stderr).toBe("status 0");
  }, 60_000);

  test("is complete if it is larger than a pipe, also if the pipe is non-blocking", async () => {
    const models = Array.from({ length: 1000 }, (_, at) => ({
      id: `model-${at}`,
      routes: [{ provider: "local" }],
    }));
    cli = await openCliFolder(
      configText({ providers: { local: "http://127.0.0.1:9/v1" }, models }),
    );
    const pipe = join(cli.folder, "pipe");
    Bun.spawnSync(["mkfifo", pipe]);
    const reader = openSync(pipe, constants.O_RDONLY | constants.O_NONBLOCK);
    const writer = openSync(pipe, constants.O_WRONLY | constants.O_NONBLOCK);
    // As stdout itself, Bun would pass it to the child as a blocking pipe.
    const shell = ["sh", "-c", 'exec "$@" >&3', "sh"];
    const child = Bun.spawn([...shell, binary, "models", "--json"], {
      cwd: cli.folder,
      stdio: ["ignore", "ignore", "inherit", writer],
    });
    closeSync(writer);
    let text = "";
    const buffer = Buffer.alloc(1000);
    const isOver = (): boolean => {
      const count = readIfAny(reader, buffer);
      text += buffer.toString("latin1", 0, count ?? 0);
      return count === 0;
    };
    await until("the answer is there", isOver, 15_000);
    closeSync(reader);
    expect(await child.exited).toBe(0);
    expect(JSON.parse(text)).toHaveLength(1000);
    expect(text.length).toBeGreaterThan(200_000);
  }, 60_000);
});

/** The number of bytes that were read: 0 at the end of the pipe, undefined if there are none yet. */
function readIfAny(pipe: number, buffer: Buffer): number | undefined {
  try {
    return readSync(pipe, buffer);
  } catch (error) {
    if (error instanceof Error && "code" in error && error.code === "EAGAIN") return undefined;
    throw error;
  }
}
