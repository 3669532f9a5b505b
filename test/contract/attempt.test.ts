import { expect, test } from "bun:test";
import { attemptForm, type AttemptOutcome } from "../../src/contract/account/receipt.ts";
import type { UpstreamOutcome } from "../../src/providers/upstreamError.ts";

/** Every outcome that the gateway records, and what a key holder sees of it. */
const outcomes: Readonly<
  Record<Exclude<UpstreamOutcome, `status ${number}`> | "ok", AttemptOutcome>
> = {
  ok: "ok",
  closed: "failed",
  "client disconnected": "cancelled",
  compressed: "failed",
  "content type": "failed",
  database: "internal_error",
  descriptors: "internal_error",
  dns: "unavailable",
  "empty answer": "failed",
  "endless answer": "failed",
  "incomplete answer": "failed",
  "internal error": "internal_error",
  "invalid answer": "failed",
  "isolated failure": "failed",
  "key expired": "unavailable",
  "no key": "unavailable",
  protocol: "failed",
  proxy: "unavailable",
  refused: "unavailable",
  "reported failure": "failed",
  request: "unavailable",
  shutdown: "internal_error",
  timeout: "timeout",
  tls: "unavailable",
  "too large": "failed",
  unreachable: "unavailable",
  "unrequested data": "failed",
  unsupported: "refused",
};

const statuses = [302, 400, 401, 402, 403, 404, 409, 413, 418, 422, 429, 500, 503, 529, 599];
const refusals = new Set([400, 409, 413, 422]);

test.each([
  ...Object.entries(outcomes),
  ...statuses.map((status) => [
    `status ${status}`,
    refusals.has(status) ? "refused" : "unavailable",
  ]),
])("an attempt that ended with %j is shown as %j", (outcome, shown) => {
  const attempt = { provider: "local", outcome, status: 503, durationMs: 7 };
  expect(attemptForm(attempt) as unknown).toEqual({ outcome: shown, duration_ms: 7 });
});
