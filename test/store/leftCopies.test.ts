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
import { backUp } from "../../src/store/store.ts";
import { openBooksBefore } from "../support/store/storeBefore.ts";

const never = new Promise<void>(() => undefined);
const header = "SQLite format 3\0 and more";
const left = "night.db.0123456789ab.partial";

const storeFolder = openBooksBefore();
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

test("a backup clears its folder of the copies that killed ones left there, with all that lies beside them", async () => {
  put(left, header, 13);
  put(`${left}-journal`, "anything", 13);
  put(`${left}.trial`, header, 13);
  put("other.db.ba9876543210.partial", "", 13);
  put("third.db.ba9876543210.partial", "\0".repeat(4096), 13);
  await back();
  expect(readdirSync(folder)).toEqual(["next.db"]);
});

test.each([
  ["a copy that may be under way", () => put(left, header, 11)],
  ["a file that is no database", () => put(left, "precious text of somebody", 13)],
  ["a file that others may read", () => put(left, header, 13, 0o640)],
  ["another program's name", () => put("night.db.partial", header, 13)],
  ["a name that goes on", () => put(`${left}.gz`, header, 13)],
  [
    "a folder",
    () => {
      mkdirSync(join(folder, left), { mode: 0o600 });
      age(join(folder, left), 13);
    },
  ],
  [
    "a link",
    () => {
      put("kept.db", header, 13);
      symlinkSync("kept.db", join(folder, left));
      age(join(folder, left), 13);
    },
  ],
])("a backup leaves %s where it is", async (_, prepare) => {
  prepare();
  const before = readdirSync(folder);
  await back();
  expect(readdirSync(folder).toSorted()).toEqual([...before, "next.db"].toSorted());
});
