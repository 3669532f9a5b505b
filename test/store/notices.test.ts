import { expect, test } from "bun:test";
import { DAY_MS } from "../../src/lib/clock.ts";
import type { LowAccount } from "../../src/store/store.ts";
import { describeStores } from "../support/store/storeOnEngines.ts";
import { actor, costOfEnded } from "../support/store/storeFolder.ts";

const HOUR_MS = 3_600_000;
const cause = { type: "account_low", subject: "alice" } as const;

describeStores("the record of a notice", (current) => {
  const steps = ["hold", "again", "claim", "told", "end"] as const;
  const change = async (step: (typeof steps)[number], at: number) =>
    await current.store.notices.change({ ...cause, step, at });
  const now = actor.at;

  test("lets one caller tell of a condition, once while it holds", async () => {
    expect(await change("claim", now)).toBe(false);
    await change("hold", now);
    const claims = await Promise.all([change("claim", now), change("claim", now + 1)]);
    expect(claims.filter(Boolean)).toHaveLength(1);
    await change("told", claims[0] ? now : now + 1);
    await change("hold", now + 2 * HOUR_MS);
    expect(await change("claim", now + 2 * HOUR_MS)).toBe(false);
    expect(await current.store.notices.open([cause.type])).toMatchObject([
      { ...cause, told: true },
    ]);
    expect(await current.store.notices.open(["key_expires"])).toEqual([]);
  });

  test("lets it be told again after an hour if it did not arrive", async () => {
    await change("hold", now);
    expect(await change("claim", now)).toBe(true);
    expect(await change("claim", now + HOUR_MS - 1)).toBe(false);
    expect(await change("claim", now + HOUR_MS)).toBe(true);
    // The first notice arrives late. The second one is still to arrive.
    await change("told", now);
    expect(await change("claim", now + 2 * HOUR_MS)).toBe(true);
  });

  test("lets a condition that has ended and begins again be told again, an hour later at the earliest", async () => {
    await change("hold", now);
    await change("claim", now);
    await change("told", now);
    await change("end", now + 1);
    expect(await current.store.notices.open([cause.type])).toEqual([]);
    await change("hold", now + 2);
    expect(await change("claim", now + 2)).toBe(false);
    expect(await change("claim", now + HOUR_MS)).toBe(true);
  });

  test("lets a condition that comes about once more be told once more, an hour later at the earliest", async () => {
    await change("again", now);
    expect(await change("claim", now)).toBe(true);
    await change("told", now);
    await change("again", now + 1);
    expect(await change("claim", now + 1)).toBe(false);
    expect(await change("claim", now + HOUR_MS)).toBe(true);
  });
});

describeStores("the record of audits", (current) => {
  const store = () => current.store.notices;
  const found = async () =>
    (await store().open(["audit_failed"])).map(({ subject }) => subject).toSorted();

  test("keeps what an audit found until an audit finds nothing: a backup audits the money only", async () => {
    await store().audited("audit", true, actor.at);
    await store().audited("backup", true, actor.at);
    expect(await found()).toEqual(["audit", "backup"]);
    await store().audited("backup", false, actor.at);
    expect(await found()).toEqual(["audit"]);
    await store().audited("backup", true, actor.at);
    await store().audited("audit", false, actor.at);
    expect(await found()).toEqual([]);
  });
});

describeStores("the causes of notices:", (current) => {
  /** The accounts that are low, read in pages of two. */
  async function lowAccounts(low: bigint, days: number, nowMs: number): Promise<LowAccount[]> {
    const found: LowAccount[] = [];
    for (let after: number | undefined = 0; after !== undefined;) {
      const page = await current.store.noticeCauses.lowAccounts(
        { after, limit: 2 },
        { low, days },
        nowMs,
      );
      found.push(...page.low);
      after = page.next;
    }
    return found;
  }
  const namesOf = (found: readonly LowAccount[]) => found.map(({ name }) => name);

  test("an account is low below its own threshold, or else below the usual one", async () => {
    for (const [name, balance] of [
      ["poor", 10n],
      ["rich", 1000n],
      ["watched", 1000n],
      ["trusted", 10n],
      ["disabled", 10n],
    ] as const)
      await current.fund(name, balance);
    await current.store.admin.createAccount(actor, "unused", 0n);
    await current.store.admin.setAccount(actor, "watched", {
      low: 1001n,
      notifyUrl: "https://example.com/hook",
    });
    await current.store.admin.setAccount(actor, "trusted", { low: 10n, overdraft: 5n });
    await current.store.admin.setDisabled(actor, "disabled", true);
    const found = await lowAccounts(11n, 3, actor.at);
    expect(namesOf(found)).toEqual(["poor", "watched"]);
    expect(found[1]).toEqual({
      name: "watched",
      left: 1000n,
      below: 1001n,
      daysLeft: undefined,
      notifyUrl: "https://example.com/hook",
    });
    expect(namesOf(await lowAccounts(0n, 3, actor.at))).toEqual(["watched"]);
    expect(await current.adminLog()).toContainEqual(
      expect.objectContaining({ detail: "low 0.000001001, notify example.com" }),
    );
  });

  test("an account is low if its money lasts for fewer days at its pace", async () => {
    const owner = await current.fund("alice", costOfEnded * 10n);
    await current.recordMany(owner, ["req_1", "req_2"]);
    // The requests are of the last whole day. Two of ten are spent in six days, so eight last for 24.
    const at = (Math.floor(actor.at / DAY_MS) + 1) * DAY_MS;
    expect(await lowAccounts(0n, 25, at)).toEqual([
      {
        name: "alice",
        left: costOfEnded * 8n,
        below: undefined,
        daysLeft: 24,
        notifyUrl: null,
      },
    ]);
    expect(await lowAccounts(0n, 24, at)).toEqual([]);
    expect(await lowAccounts(0n, 0, at)).toEqual([]);
    // A week without requests has no pace.
    expect(await lowAccounts(0n, 10_000, at + 8 * DAY_MS)).toEqual([]);
  });
});
