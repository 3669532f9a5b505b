import { expect, test } from "bun:test";
import { join } from "node:path";
import { events } from "../../src/telemetry/events.ts";

const root = join(import.meta.dir, "../..");
const text = (path: string) => Bun.file(join(root, path)).text();
const metrics = await text("docs/reference/metrics.md");
const alerts = await text("docs/monitoring/alerts.yaml");

test("docs/troubleshoot/fleet.md names events, metrics and alerts that exist", async () => {
  const names = [...(await text("docs/troubleshoot/fleet.md")).matchAll(/`(\w+)`/g)].map(
    ([, name = ""]) => name,
  );
  const isKnown = (name: string): boolean => {
    if (name.startsWith("tollgate_")) return metrics.includes(`\`${name}\``);
    if (/^Tollgate[A-Z]/.test(name)) return alerts.includes(`alert: ${name}\n`);
    return (
      !/^(?:\w+_(?:fenced|silent|differs|blocked|unusable|full))$/.test(name) || name in events
    );
  };
  expect(names.filter((name) => !isKnown(name))).toEqual([]);
  expect(names.filter((name) => /^[Tt]ollgate/.test(name)).length).toBeGreaterThan(4);
});
