import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { mkdtemp, rm, stat, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { sha256Sums, tarOf, writeXz } from "../../scripts/release/archives.ts";
import { outputOf } from "../support/binary/binary.ts";

const modifiedAt = new Date("2026-01-02T03:04:05Z");
const files = [
  { name: "tollgate", body: new Uint8Array([0, 1, 2, 255]), isExecutable: true },
  { name: "LICENSE", body: "MIT Licence ©\n" },
];

describe("an archive of a release", () => {
  let folder: string;
  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), "tollgate-archives-"));
  });
  afterAll(() => rm(folder, { recursive: true, force: true }));

  async function run(...command: readonly string[]): Promise<string> {
    const child = Bun.spawn([...command], {
      cwd: folder,
      env: { ...process.env, TZ: "UTC", LC_ALL: "C" },
      stdio: ["ignore", "pipe", "pipe"],
    });
    const { stdout, stderr, status } = await outputOf(child);
    if (status !== 0) throw new Error(`${command.join(" ")}: ${stderr}`);
    return stdout;
  }

  test("has its files in one folder, without an owner, at the time of the commit", async () => {
    await writeFile(join(folder, "one.tar"), await tarOf("tollgate-1.2.3", files, modifiedAt));
    const lines = (await run("tar", "--numeric-owner", "-tvf", "one.tar")).trimEnd().split("\n");
    expect(lines.map((line) => line.replace(/\s+/g, " "))).toEqual([
      "-rwxr-xr-x 0/0 4 2026-01-02 03:04 tollgate-1.2.3/tollgate",
      "-rw-r--r-- 0/0 15 2026-01-02 03:04 tollgate-1.2.3/LICENSE",
    ]);
    await run("tar", "-xf", "one.tar");
    for (const { name, body } of files)
      expect(Buffer.from(body)).toEqual(
        Buffer.from(await Bun.file(join(folder, "tollgate-1.2.3", name)).bytes()),
      );
    expect((await stat(join(folder, "tollgate-1.2.3/tollgate"))).mode & 0o777).toBe(0o755);
  });

  test("is the same bytes each time", async () => {
    const [first, second] = await Promise.all([
      tarOf("tollgate-1.2.3", files, modifiedAt),
      tarOf("tollgate-1.2.3", files, modifiedAt),
    ]);
    expect(second).toEqual(first);
  });

  test.skipIf(Bun.which("xz") === null)("is compressed to what xz reads", async () => {
    for (const isFilteredForX86 of [true, false]) {
      const tar = await tarOf("tollgate-1.2.3", files, modifiedAt);
      await writeXz(join(folder, "two.tar.xz"), tar, isFilteredForX86);
      await run("xz", "--decompress", "--keep", "--force", "two.tar.xz");
      expect(Buffer.compare(await Bun.file(join(folder, "two.tar")).bytes(), tar)).toBe(0);
    }
  });

  test("has a sum that sha256sum confirms", async () => {
    await writeFile(join(folder, "b.cdx.json"), "{}");
    await writeFile(join(folder, "a.tar.xz"), "archive");
    const paths = ["b.cdx.json", "a.tar.xz"].map((name) => join(folder, name));
    await writeFile(join(folder, "SHA256SUMS"), await sha256Sums(paths));
    const checked = await run("sha256sum", "--strict", "--check", "SHA256SUMS");
    expect(checked).toBe("a.tar.xz: OK\nb.cdx.json: OK\n");
    await writeFile(join(folder, "a.tar.xz"), "another");
    const altered = run("sha256sum", "--check", "SHA256SUMS").then(() => "confirmed", String);
    expect(await altered).toContain("did NOT match");
  });
});
