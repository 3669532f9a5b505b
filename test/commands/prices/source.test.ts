import { afterAll, afterEach, beforeAll, describe, expect, test } from "bun:test";
import { readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { binaryPath } from "../../support/binary/binary.ts";
import { gpt, listWith, openSyncFolder, type SyncFolder } from "./priceSync.ts";

let folder: SyncFolder;
beforeAll(async () => {
  folder = await openSyncFolder(gpt);
}, 60_000);
afterEach(() =>
  Bun.file(join(folder.folder, "prices.toml"))
    .delete()
    .catch(() => undefined),
);
afterAll(() => folder.remove());

const certificates = join(import.meta.dir, "../../support/certificates");

interface Served {
  readonly url: string;
  /** Method, query and length of each request. */
  readonly seen: readonly (readonly [string, string, string | null])[];
}

/** Serves an answer at a loopback port while `work` runs. */
async function withServer(
  answer: (request: Request) => Response | Promise<Response>,
  work: (served: Served) => Promise<void>,
  tls?: { readonly cert: string; readonly key: string },
): Promise<void> {
  const seen: [string, string, string | null][] = [];
  const server = Bun.serve({
    port: 0,
    hostname: "127.0.0.1",
    ...(tls && { tls }),
    fetch(request) {
      const { search } = new URL(request.url);
      seen.push([request.method, search, request.headers.get("content-length")]);
      return answer(request);
    },
  });
  try {
    await work({ url: `${tls ? "https" : "http"}://127.0.0.1:${server.port}`, seen });
  } finally {
    await server.stop(true);
  }
}

const runWith = (source: string, ...args: readonly string[]) =>
  folder.run("prices", "sync", source, "--yes", ...args);

describe("a list at an address", () => {
  test("is read, and its query stays out of the file", async () => {
    const list = await listWith();
    await withServer(
      () => new Response(list),
      async ({ url, seen }) => {
        const { status, stderr } = await runWith(`${url}/main/list.json?token=secret`);
        expect({ status, stderr }).toMatchObject({
          status: 0,
          stderr: expect.stringContaining("wrote "),
        });
        expect(seen).toEqual([["GET", "?token=secret", null]]);
        const text = await readFile(join(folder.folder, "prices.toml"), "utf8");
        expect(text).toContain(` from "${url}/main/list.json".`);
        expect(text).not.toContain("secret");
      },
    );
  });

  test.each<readonly [what: string, answer: () => Response, message: string]>([
    ["a 404", () => new Response("no", { status: 404 }), "answers with the status 404"],
    [
      "a redirect",
      () => Response.redirect("https://example.com/list.json"),
      "answers with the status 302; redirects are not followed: use the target address",
    ],
    ["a page", () => new Response("<html>"), "is not valid JSON"],
    [
      "more than 64 MB",
      () => new Response(new Uint8Array(65 * 1024 ** 2).fill(0x20)),
      "is larger than 64 MB: it is not a price list",
    ],
  ])("that answers with %s", async (_, answer, message) => {
    await withServer(answer, async ({ url }) => {
      const { status, stderr } = await runWith(`${url}/list.json`);
      expect({ status, stderr }).toMatchObject({
        status: 1,
        stderr: expect.stringContaining(message),
      });
      expect(await folder.prices()).toBeUndefined();
    });
  });

  test("must have a certificate that counts", async () => {
    const [cert, key] = await Promise.all(
      ["localhost.pem", "server.key"].map((name) => readFile(join(certificates, name), "utf8")),
    );
    const list = await listWith();
    await withServer(
      () => new Response(list),
      async ({ url, seen }) => {
        const { status, stderr } = await runWith(`${url}/list.json`);
        expect({ status, stderr }).toMatchObject({
          status: 1,
          stderr: expect.stringContaining("cannot be read (tls)"),
        });
        expect(seen).toEqual([]);
      },
      { cert: cert ?? "", key: key ?? "" },
    );
  });

  test.each([
    ["http://example.com/list.json?key=secret", 2, "is not encrypted"],
    ["https://user:secret@example.com/list.json", 2, "has a user or a password"],
    ["https://[::1", 2, "is no valid URL"],
    ["http://127.0.0.1:9/list.json", 1, "cannot be read (refused)"],
  ])("%s is refused", async (source, status, message) => {
    const run = await runWith(source);
    expect(run.stderr).toContain(message);
    expect(run.stderr).not.toContain("secret");
    expect(run).toMatchObject({ status, stdout: "" });
  });
});

describe("in a terminal", () => {
  /** Runs the command in a terminal, and types the line when it asks. */
  async function inTerminal(line: string, ...args: readonly string[]) {
    await writeFile(join(folder.folder, "list.json"), await listWith());
    let shown = "";
    const child = Bun.spawn([await binaryPath(), "prices", "sync", ...args], {
      cwd: folder.folder,
      env: { PATH: process.env["PATH"] ?? "" },
      terminal: {
        cols: 250,
        rows: 50,
        data(terminal, bytes) {
          const before = shown;
          shown += Buffer.from(bytes).toString();
          if (!before.includes("[y/N]") && shown.includes("[y/N]")) terminal.write(`${line}\n`);
        },
      },
    });
    return { status: await child.exited, shown };
  }

  test.each([
    ["y", 0],
    ["yes", 0],
    ["n", 1],
    ["", 1],
    ["yesterday", 1],
  ])("it asks, and the answer %j counts", async (line, status) => {
    const ended = await inTerminal(line, "list.json");
    expect(ended.shown).toContain("usd_input_per_1m");
    expect(ended.shown).toContain(`write 1 changes to ${join(folder.folder, "prices.toml")}?`);
    expect(ended.status).toBe(status);
    expect((await folder.prices()) !== undefined).toBe(status === 0);
  });

  test("it wants a source", async () => {
    const { status, shown } = await inTerminal("");
    expect({ status, shown }).toMatchObject({
      status: 2,
      shown: expect.stringContaining("give the file of the price list"),
    });
  });
});
