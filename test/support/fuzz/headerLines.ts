import { weighed, type Chance } from "../seededRandom.ts";
import { several } from "../several.ts";

/** Header lines that change neither caller nor request; without their line ends. */
export function idleLines(chance: Chance): string[] {
  const count = weighed(chance, [
    [12, 0],
    [8, 1 + chance.below(4)],
    [1, 20 + chance.below(60)],
  ]);
  return several(count, () => (chance.chance(0.4) ? chance.pick(known) : unknown(chance)));
}

const known = [
  "Accept: text/html",
  "Accept-Encoding: gzip, br",
  "Connection: keep-alive",
  "Connection: authorization, content-type",
  "Cookie: a=b; __proto__=c",
  "Cookie: a=b",
  "Forwarded: for=127.0.0.1;host=evil.example",
  "If-Match: *",
  "If-None-Match: *",
  "If-Modified-Since: Sat, 01 Jan 2000 00:00:00 GMT",
  "Keep-Alive: timeout=1, max=1",
  "Max-Forwards: 0",
  "Origin: https://evil.example",
  "Proxy-Authorization: Basic YTpi",
  "Range: bytes=0-1",
  "TE: trailers",
  "Upgrade: h2c, websocket",
  "User-Agent: fuzz/1.0 (\u00e9)",
  "Via: 1.1 somewhere",
  "X-Forwarded-For: 10.0.0.1, unknown, ::1",
  "X-Forwarded-Host: evil.example",
  "X-HTTP-Method-Override: DELETE",
  "X-Original-URL: /admin",
  "X-Request-Id: req_evil",
  "__proto__: x",
  "constructor: x",
];

const nameCharacters = "abcdefghijklmnopqrstuvwxyzABCXYZ0123456789!#$%&'*+.^_`|~-".split("");
const longest = 2000;

function unknown(chance: Chance): string {
  const name = several(1 + chance.below(10), () => chance.pick(nameCharacters));
  const length = chance.chance(0.03) ? chance.below(longest) : chance.below(30);
  const value = several(length, () => 0x20 + chance.below(0xdf)).filter((code) => code !== 0x7f);
  return `x-${name.join("")}:${chance.pick(["", " ", "  ", "\t"])}${String.fromCharCode(...value)}`;
}

/** A line with a key; `isKey`: the gateway must accept it. */
export function credentials(key: string, chance: Chance): { line: string; isKey: boolean } {
  if (chance.chance(0.9)) {
    const scheme = chance.pick(["Bearer ", "Bearer ", "Bearer ", "bearer ", "BEARER  "]);
    const name = chance.pick(["Authorization", "authorization", "AUTHORIZATION"]);
    const bearer = `${name}: ${scheme}${key}${chance.pick(["", "", " ", "\t"])}`;
    const apiKey = `${chance.pick(["X-Api-Key", "x-api-key"])}: ${key}`;
    return { line: chance.pick([bearer, bearer, apiKey, `${bearer}\r\n${apiKey}`]), isKey: true };
  }
  return { line: chance.pick(badCredentials)(key, chance), isKey: false };
}

const badCredentials: readonly ((key: string, chance: Chance) => string)[] = [
  () => "Authorization:",
  () => "Authorization: Bearer",
  () => "Authorization: Bearer ",
  (key) => `Authorization: ${key}`,
  (key) => `Authorization: Basic ${key}`,
  (key) => `Authorization: Bearer\t${key}`,
  (key) => `Authorization: Bearer ${key},${key}`,
  (key) => `Authorization: Bearer ${key} x`,
  (key) => `Authorization: Bearer "${key}"`,
  (key) => `Authorization: Bearer ${key.toLowerCase()}x`,
  (key) => `X-Authorization: Bearer ${key}`,
  (key) => `Authorization: Bearer ${key}\r\nAuthorization: Bearer ${key}`,
  (key, chance) => `Authorization: Bearer ${key.slice(0, chance.below(key.length))}`,
  (_, chance) => `Authorization: Bearer ${"k".repeat(chance.below(5000))}`,
  (key) => `Authorization: Bearer ${key}\r\nX-Api-Key: sk-tg-none`,
  (key) => `X-Api-Key: ${key}\r\nX-Api-Key: ${key}`,
  (key) => `X-Api-Key: Bearer ${key}`,
  () => "Authorization: Bearer \u00e9\u00ff",
  () => "Authorization: Bearer sk-tg-' OR '1'='1",
];
