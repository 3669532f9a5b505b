import { describe, expect, test } from "bun:test";
import { openOneModelBefore } from "../../support/gateway/gatewayUnderTest.ts";

const at = openOneModelBefore();

function get(path: string, headers: Readonly<Record<string, string>> = {}): Promise<Response> {
  return fetch(at.gateway.url + path, { headers });
}

/** The paths of the files that the HTML loads. */
async function assetPaths(): Promise<readonly string[]> {
  const html = await (await get("/")).text();
  // Addresses are relative, so that the page works below a path.
  return [...html.matchAll(/"(?:\.\/)?(assets\/[^"]+)"/g)].map(([, path = ""]) => `/${path}`);
}

describe("the page", () => {
  test("loads only its own files, each with a type and a name that never gets other content", async () => {
    const paths = await assetPaths();
    expect(paths.map((path) => path.replace(/^.*\./, "")).toSorted()).toEqual(["css", "js", "svg"]);
    for (const path of paths) {
      const { status, headers } = await get(path);
      expect([status, headers.get("cache-control")]).toEqual([
        200,
        "public, max-age=31536000, immutable",
      ]);
      expect(headers.get("content-type")).toMatch(/^(text\/(css|javascript)|image\/svg\+xml)/);
    }
  });

  test("forbids foreign code, frames and referrers, and has no CORS headers", async () => {
    for (const path of ["/", ...(await assetPaths())]) {
      const { headers } = await get(path, { origin: "https://other.example" });
      expect(headers.get("content-security-policy")).toBe(
        "default-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; object-src 'none'",
      );
      expect(headers.get("cross-origin-opener-policy")).toBe("same-origin");
      expect(headers.get("referrer-policy")).toBe("no-referrer");
      expect(headers.get("x-content-type-options")).toBe("nosniff");
      expect(headers.get("access-control-allow-origin")).toBeNull();
    }
  });

  test("has no code and no style within the HTML", async () => {
    const html = await (await get("/")).text();
    expect(html).not.toMatch(/<script[^>]*>[^<]|<style|\sstyle=|\son\w+=/i);
  });

  test("is asked again with its ETag, and answers 304 while it is the same", async () => {
    const first = await get("/");
    expect(first.headers.get("cache-control")).toBe("no-cache");
    const etag = first.headers.get("etag") ?? "";
    const again = await get("/", { "if-none-match": `"other", ${etag}` });
    expect([again.status, await again.text()]).toEqual([304, ""]);
    expect((await get("/", { "if-none-match": '"other"' })).status).toBe(200);
  });

  test("answers HEAD and has no other file", async () => {
    const head = await fetch(`${at.gateway.url}/`, { method: "HEAD" });
    expect([head.status, head.headers.get("content-type")]).toEqual([
      200,
      "text/html; charset=utf-8",
    ]);
    for (const path of ["/assets/", "/assets/x.js", "/assets/../package.json", "/index.html"])
      expect([path, (await get(path)).status]).toEqual([path, 404]);
  });
});

describe("[server] page = false", () => {
  const closed = openOneModelBefore({ server: { listen: "127.0.0.1:0", page: false } });

  test.each([
    ["GET", "/"],
    ["OPTIONS", "/"],
    ["OPTIONS", "/assets/x.js"],
  ])("makes its paths unknown: %s %s", async (method, path) => {
    const answer = await fetch(closed.gateway.url + path, { method });
    expect([answer.status, await answer.json()]).toEqual([
      404,
      { error: { message: "not found", type: "invalid_request_error" } },
    ]);
  });
});
