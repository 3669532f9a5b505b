import { describe, expect, test } from "bun:test";
import { judgeServer } from "../../../src/commands/doctor/server.ts";
import type { ServerInspection } from "../../../src/store/open.ts";

const url = "postgres://gate@db/tollgate";

const standby = { name: "b", state: "streaming", syncState: "sync", lagMs: 60_000, lagBytes: 1500 };

const healthy: ServerInspection = {
  version: "16.4",
  majorVersion: 16,
  settings: {
    synchronous_commit: "on",
    synchronous_standby_names: "ANY 1 (b, c)",
    default_transaction_read_only: "off",
    fsync: "on",
    full_page_writes: "on",
  },
  isStandby: false,
  schema: { applied: 3, known: 3, oldest: 2 },
  rightsProblems: [],
  bytes: 42_000_000,
  connections: { open: 87, max: 97 },
  standbys: [standby],
  replicas: [{ id: 7, name: "gate-1", version: "1.2.0", silentMs: 1900, isSilent: false }],
  clockSkew: { ms: 3, within: 1 },
  lastEntryMs: undefined,
};

function withSettings(settings: Partial<ServerInspection["settings"]>): ServerInspection {
  return { ...healthy, settings: { ...healthy.settings, ...settings } };
}

test("a replica that is silent is described as one that the next gateway ends", () => {
  const replica = { id: 8, name: "gate-2", version: "1.2.0", silentMs: 16_000, isSilent: true };
  const { ok, lines } = judgeServer(url, { ...healthy, replicas: [replica] });
  expect(ok).toBe(true);
  expect(lines).toContain(
    "replica 8 on gate-2: version 1.2.0, last heartbeat 16.0 s ago: the next gateway ends it",
  );
});

test("a server in order is described with its standbys and replicas", () => {
  expect(judgeServer(url, healthy)).toEqual({
    ok: true,
    lines: [
      `${url} (PostgreSQL 16.4, schema 3 of 3, 42.0 MB, synchronous_commit on, 10 of 97 connections left)`,
      "standby b: streaming, sync, 60.0 s, 1.5 KB behind",
      "replica 7 on gate-1: version 1.2.0, last heartbeat 1.9 s ago",
      "`tollgate audit` verifies its ledger",
    ],
  });
});

test("a standby that this user may not see is no problem", () => {
  const hidden = { name: null, state: null, syncState: null, lagMs: null, lagBytes: null };
  const { ok, lines } = judgeServer(url, { ...healthy, standbys: [hidden], replicas: [] });
  expect(ok).toBe(true);
  expect(lines.slice(1, 3)).toEqual([
    "a standby follows; this user may not see how far: GRANT pg_monitor to it",
    "no gateway is running on it",
  ]);
});

describe("a server fails if", () => {
  test.each<[string, ServerInspection, string]>([
    ["it is too old", { ...healthy, version: "13.2", majorVersion: 13 }, "use version 14 or later"],
    ["it is a standby", { ...healthy, isStandby: true }, "use the URL of the primary"],
    ["it is read-only", withSettings({ default_transaction_read_only: "on" }), "set it to off"],
    [
      "a newer version has upgraded it",
      { ...healthy, schema: { applied: 5, known: 3, oldest: 4 } },
      "has upgraded the database (schema 5 of 3)",
    ],
    [
      "its commits do not wait for the disk",
      withSettings({ synchronous_commit: "off" }),
      "synchronous_commit is off",
    ],
    [
      "its commits do not wait for the named standbys",
      withSettings({ synchronous_commit: "local" }),
      "do not wait for the standbys",
    ],
    ["it never syncs", withSettings({ fsync: "off" }), "fsync is off"],
    ["pages may be torn", withSettings({ full_page_writes: "off" }), "full_page_writes is off"],
    [
      "it has few connections left",
      { ...healthy, connections: { open: 88, max: 97 } },
      "9 of 97 connections left, at least 10 are needed",
    ],
    [
      "a standby is far behind",
      { ...healthy, standbys: [{ ...standby, lagMs: 60_001 }] },
      "the standby b is 60.0 s behind",
    ],
    [
      "a standby does not follow",
      { ...healthy, standbys: [{ ...standby, state: "startup" }] },
      "does not follow (state startup)",
    ],
  ])("%s", (_, inspection, words) => {
    const { ok, lines } = judgeServer(url, inspection);
    expect(ok).toBe(false);
    expect(lines[0]).toContain(words);
  });
});
