import { describe, expect, test } from "bun:test";
import { call, expectRefusal } from "../../support/gateway/chatCalls.ts";
import { openOneModelBefore } from "../../support/gateway/gatewayUnderTest.ts";

const at = openOneModelBefore();

async function expectRefused(query: string, message: string): Promise<void> {
  const reply = await call(at.gateway, await at.gateway.key(), { path: `/v1/usage?${query}` });
  expectRefusal(reply, [400, "invalid_request_error", message]);
}

describe("GET /v1/usage refuses a query with 400", () => {
  const groupings = "by must be one of: day, model, day,model, hour, hour,model";
  const threeDays = "since and until must be at most 3 days apart in a report by hour";
  const others = "only the parameters by, since and until are accepted";
  test.each([
    ["by=", groupings],
    ["by", groupings],
    ["by=provider", groupings],
    ["by=Day", groupings],
    ["by=model,day", groupings],
    ["by=day,hour", groupings],
    ["by=day,", groupings],
    ["by=day&by=model", "by stands twice"],
    ["by=__proto__", groupings],
    ["by=%FF", groupings],
    ["by=day&by=day", "by stands twice"],
    ["by=day&b%79=day", "by stands twice"],
    ["by=day&by=x", "by stands twice"],
    ["since=7d&since=7d", "since stands twice"],
    ["until=7d&until=8d", "until stands twice"],
    ["account=alice", others],
    ["By=day", others],
    ["by[]=day", others],
    ["__proto__=day", others],
    ["=day", others],
    ["api_key=sk-tg-secret", others],
    ["account=alice&by=x", others],
    ["since=7d&until=7d", "since must be earlier than until"],
    ["since=367d&until=0d", "since and until must be at most 366 days apart"],
    ["by=hour&since=3d", threeDays],
    ["by=hour,model&since=2026-11-01&until=2026-11-05", threeDays],
    ["by=hour&since=367d&until=0d", threeDays],
    ["by=hour&since=7d&until=7d", "since must be earlier than until"],
  ])("%j: %s", expectRefused);

  const dayExpected =
    "must be a date such as 2026-11-01, or a number of days back from today such as 7d";
  const texts = [
    ["", " 7d", "7d ", "7d\n", "٧d", "7", "d", "-7d", "+7d", "1.5d", "123456d", "24h", "7D"],
    ["yesterday", "2026-11", "2026-1-1", "2026-02-29", "2026-13-01", "2026-11-00", "20261101"],
    ["+002026-11-01", "2026-11-01T00:00:00Z", "1e3d", "NaN", "0x7d"],
  ].flat();
  test.each(texts)("%j is neither a date nor a number of days", async (text) => {
    for (const name of ["since", "until"]) {
      await expectRefused(`${name}=${encodeURIComponent(text)}`, `${name} ${dayExpected}`);
    }
  });

  test("after the key is checked: a wrong key is a 401 whatever the query says", async () => {
    for (const query of ["by=x", "x=1", "since=x"]) {
      const reply = await call(at.gateway, { key: "sk-tg-wrong" }, { path: `/v1/usage?${query}` });
      expect(reply.status).toBe(401);
    }
  });

  test("after the key's request rate is checked: a 429 comes first", async () => {
    const key = await at.gateway.key({ requestsPerMinute: 1 });
    expect((await call(at.gateway, key, { path: "/v1/usage?by=x" })).status).toBe(400);
    expect((await call(at.gateway, key, { path: "/v1/usage?by=x" })).status).toBe(429);
  });
});
