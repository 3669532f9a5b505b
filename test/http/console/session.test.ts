import { expect, test } from "bun:test";
import { ConsoleSession } from "../../../src/http/console/session.ts";
import { systemRandom } from "../../../src/lib/random.ts";

const HOUR_MS = 60 * 60 * 1000;

/** A signed-in session and its clock. */
function signedIn() {
  const clock = { nowMs: 0, epochMs: () => clock.nowMs, monotonicMs: () => clock.nowMs };
  const session = new ConsoleSession(clock, systemRandom);
  const { cookie: value, pageSecret } = session.exchange(session.token) ?? {};
  const cookie = `other=1; ${session.cookieName}=${value}`;
  const accepts = (isUse: boolean) => session.accepts(cookie, pageSecret ?? "", isUse);
  return { clock, session, cookie, pageSecret: pageSecret ?? "", accepts };
}

test("an hour without use ends the session, and a refresh by the page is no use", async () => {
  const { clock, session, accepts } = signedIn();
  clock.nowMs = HOUR_MS;
  expect(accepts(true)).toBe(true);
  clock.nowMs = 2 * HOUR_MS;
  expect(accepts(false)).toBe(true);
  clock.nowMs += 1;
  expect(accepts(false)).toBe(false);
  expect(await session.ended).toBe("idle");
});

test("the hour also ends a session that nobody signed in to", async () => {
  const { clock, session } = signedIn();
  clock.nowMs = HOUR_MS + 1;
  session.endIfIdle();
  expect(await session.ended).toBe("idle");
  expect(session.exchange(session.token)).toBeUndefined();
});

test("only the cookie of this session is accepted, and none after its end", () => {
  const { session, cookie, pageSecret, accepts } = signedIn();
  const other = signedIn();
  expect(accepts(true)).toBe(true);
  for (const wrong of ["", other.cookie, `${session.cookieName}=`, `${cookie}x`])
    expect([wrong, session.accepts(wrong, pageSecret, true)]).toEqual([wrong, false]);
  session.end();
  expect(accepts(true)).toBe(false);
});

test("the cookie opens nothing without the page's secret", () => {
  const { session, cookie, pageSecret } = signedIn();
  for (const wrong of ["", "1", cookie, `${pageSecret}x`, signedIn().pageSecret])
    expect([wrong, session.accepts(cookie, wrong, true)]).toEqual([wrong, false]);
});

test("a cookie of the same name that another port adds takes nothing away", () => {
  const { session, cookie, pageSecret } = signedIn();
  const added = `${session.cookieName}=added; ${cookie}`;
  expect(session.accepts(added, pageSecret, true)).toBe(true);
});
