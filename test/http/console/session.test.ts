import { expect, test } from "bun:test";
import { ConsoleSession } from "../../../src/http/console/session.ts";
import { systemRandom } from "../../../src/lib/random.ts";

const HOUR_MS = 60 * 60 * 1000;

/** A signed-in session and its clock. */
function signedIn() {
  const clock = { nowMs: 0, epochMs: () => clock.nowMs, monotonicMs: () => clock.nowMs };
  const session = new ConsoleSession(clock, systemRandom);
  const cookie = `other=1; ${session.cookieName}=${session.exchange(session.token)}`;
  return { clock, session, cookie };
}

test("an hour without use ends the session, and a refresh by the page is no use", async () => {
  const { clock, session, cookie } = signedIn();
  clock.nowMs = HOUR_MS;
  expect(session.accepts(cookie, true)).toBe(true);
  clock.nowMs = 2 * HOUR_MS;
  expect(session.accepts(cookie, false)).toBe(true);
  clock.nowMs += 1;
  expect(session.accepts(cookie, false)).toBe(false);
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
  const { session, cookie } = signedIn();
  const other = signedIn();
  expect(session.accepts(cookie, true)).toBe(true);
  for (const wrong of ["", other.cookie, `${session.cookieName}=`, `${cookie}x`])
    expect([wrong, session.accepts(wrong, true)]).toEqual([wrong, false]);
  session.end();
  expect(session.accepts(cookie, true)).toBe(false);
});
