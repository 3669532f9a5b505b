import { afterEach, beforeEach, expect, test } from "bun:test";
import {
  chmodSync,
  lutimesSync,
  mkdirSync,
  readdirSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { backUp } from "../../src/store/open.ts";
import { openSampleLedgerBefore } from "../support/store/storeBefore.ts";

const never = new Promise<void>(() => undefined);
const content = "any content";
const partial = "night.db.0123456789ab.partial";

const storeFolder = openSampleLedgerBefore();
let folder: string;
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), "tollgate-backups-"));
});
afterEach(async () => {
  await rm(folder, { recursive: true, force: true });
});

const back = () =>
  backUp({ database: storeFolder.path, file: join(folder, "next.db"), stopped: never });

function put(name: string, text: string, hours: number, mode = 0o600): void {
  const path = join(folder, name);
  writeFileSync(path, text, { mode });
  chmodSync(path, mode);
  age(path, hours);
}

function age(path: string, hours: number): void {
  const seconds = Date.now() / 1000 - hours * 3600;
  lutimesSync(path, seconds, seconds);
}

test("a backup removes the partial copies of killed backups and the files beside them", async () => {
  put(partial, content, 13);
  put(`${partial}-journal`, "anything", 13);
  put(`${partial}.trial`, content, 13);
  put("other.db.ba9876543210.partial", "", 13);
  await back();
  expect(readdirSync(folder)).toEqual(["next.db"]);
});

test.each([
  ["a copy that may be in progress", () => put(partial, content, 11)],
  ["a file that others can read", () => put(partial, content, 13, 0o640)],
  ["another program's name", () => put("night.db.partial", content, 13)],
  ["a name with another suffix", () => put(`${partial}.gz`, content, 13)],
  [
    "a folder",
    () => {
      mkdirSync(join(folder, partial), { mode: 0o600 });
      age(join(folder, partial), 13);
    },
  ],
  [
    "a link",
    () => {
      put("kept.db", content, 13);
      symlinkSync("kept.db", join(folder, partial));
      age(join(folder, partial), 13);
    },
  ],
])("a backup does not remove %s", async (_, prepare) => {
  prepare();
  const before = readdirSync(folder);
  await back();
  expect(readdirSync(folder).toSorted()).toEqual([...before, "next.db"].toSorted());
});
