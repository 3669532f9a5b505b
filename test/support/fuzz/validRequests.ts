import { bodyFor, type Endpoint, type FuzzBody } from "./bodies.ts";
import { weighed, type Chance } from "../seededRandom.ts";
import { credentials, idleLines } from "./headerLines.ts";
import { several } from "../several.ts";

/** The keys and models of the gateway. */
export interface FuzzTargets {
  readonly models: readonly string[];
  /** Has more money than a run can cost. */
  readonly rich: string;
  /** Has none. */
  readonly poor: string;
  /** May ask only now and then. */
  readonly limited: string;
  readonly revoked: string;
  /** The id of a request that the rich one made. */
  readonly receipt: string;
  /** The code of a voucher that the rich one redeemed. */
  readonly code: string;
}

/** A valid HTTP request, and its possible answers. */
export interface ValidRequest {
  readonly head: string;
  readonly body: Buffer;
  readonly isHead: boolean;
  /** The connection ends after its answer. */
  readonly isLast: boolean;
  /** Its name in the API description; undefined if it has none. */
  readonly operation: string | undefined;
  readonly statuses: readonly number[];
}

/** A request before the credentials are drawn. */
interface Call {
  readonly method: string;
  readonly target: string;
  readonly operation: string | undefined;
  readonly statuses: readonly number[];
  readonly needsKey: boolean;
  readonly body?: FuzzBody;
  /** A provider answers it. */
  readonly isPaid?: true;
}

/** Draws a request as a client, a browser or a proxy might write it. */
export function validRequest(targets: FuzzTargets, chance: Chance): ValidRequest {
  const call = weighed(chance, calls)(targets, chance);
  const asker = askerFor(targets, chance);
  const host = hostFor(call.target, chance);
  const type = call.body === undefined ? undefined : contentType(chance);
  const isLast = chance.chance(0.06);
  const version = isLast && chance.chance(0.5) ? "HTTP/1.0" : "HTTP/1.1";
  const { lines, body } = framed(call.body?.bytes ?? strayBody(call, chance), version, chance);
  const all = shuffled(
    [
      host.line,
      ...asker.lines,
      ...(type === undefined ? [] : [type.line]),
      ...idleLines(chance).filter((line) => !isLast || !/^connection/i.test(line)),
      ...(isLast && version === "HTTP/1.1" ? ["Connection: close"] : []),
      ...lines,
    ],
    chance,
  );
  return {
    head: `${call.method} ${call.target} ${version}\r\n${all.join("\r\n")}\r\n\r\n`,
    body,
    isHead: call.method === "HEAD",
    isLast,
    ...(host.isForeign
      ? { operation: undefined, statuses: [400] }
      : { operation: call.operation, statuses: statusesOf(call, asker, type?.isJson ?? true) }),
  };
}

/** In the order of the contract's checks. */
function statusesOf(call: Call, asker: Asker, isJson: boolean): readonly number[] {
  if (!call.needsKey) return call.statuses;
  if (asker.kind === "stranger") return [401];
  const served = isJson ? call.statuses : [400];
  if (asker.kind === "limited") return [...served, 429];
  // Every request that a provider answers costs more than nothing. It is refused before its body is read, but for the first
  // one after a change.
  if (asker.kind === "poor" && call.isPaid)
    return [402, ...served.filter((status) => status === 400 || status === 404)];
  return served;
}

interface Asker {
  readonly kind: "rich" | "poor" | "limited" | "stranger";
  readonly lines: readonly string[];
}

function askerFor(targets: FuzzTargets, chance: Chance): Asker {
  const kind = weighed(chance, [
    [16, "rich"],
    [1, "poor"],
    [1, "limited"],
    [1, "revoked"],
    [1, "nobody"],
  ] as const);
  if (kind === "nobody") return { kind: "stranger", lines: [] };
  const { line, isKey } = credentials(targets[kind], chance);
  return { kind: isKey && kind !== "revoked" ? kind : "stranger", lines: [line] };
}

const calls: readonly (readonly [number, (targets: FuzzTargets, chance: Chance) => Call])[] = [
  [32, (targets, chance) => completion("chat", targets, chance)],
  [18, (targets, chance) => completion("responses", targets, chance)],
  [8, (_, chance) => getting("/v1/models", "/v1/models", [200], chance)],
  [6, (targets, chance) => model(targets, chance)],
  [6, (_, chance) => getting("/v1/account", "/v1/account", [200], chance)],
  [4, (_, chance) => usage(chance)],
  [6, (targets, chance) => receipt(targets, chance)],
  [4, (targets, chance) => requestList(targets, chance)],
  [4, (targets, chance) => redemption(targets, chance)],
  [8, (_, chance) => ({ ...getting("/healthz", "/healthz", [200], chance), needsKey: false })],
  [
    1,
    (_, chance) => ({
      ...getting("/openapi.json", "/openapi.json", [200], chance),
      needsKey: false,
    }),
  ],
  [11, (targets, chance) => nothing(targets, chance)],
];

function completion(endpoint: Endpoint, { models }: FuzzTargets, chance: Chance): Call {
  const path = endpoint === "chat" ? "/v1/chat/completions" : "/v1/responses";
  const body = bodyFor(endpoint, models, chance);
  const target = disguised(path, chance);
  const { statuses } = body;
  const operation = `POST ${path}`;
  return { method: "POST", target, operation, statuses, needsKey: true, body, isPaid: true };
}

function getting(path: string, target: string, statuses: readonly number[], chance: Chance): Call {
  const method = chance.chance(0.2) ? "HEAD" : "GET";
  return {
    method,
    target: disguised(target, chance),
    operation: `GET ${path}`,
    statuses,
    needsKey: true,
  };
}

function model({ models }: FuzzTargets, chance: Chance): Call {
  const id = chance.pick(models);
  const written = chance.pick([id, id.replaceAll("/", "%2F"), encodeURIComponent(id)]);
  const unknown = [`${id}x`, "%zz", "%ff", "%00", "a%2F..%2Fb", "__proto__", "constructor", "*"];
  return chance.chance(0.5)
    ? getting("/v1/models/{id}", `/v1/models/${written}`, [200], chance)
    : getting("/v1/models/{id}", `/v1/models/${chance.pick(unknown)}`, [404], chance);
}

function receipt(targets: FuzzTargets, chance: Chance): Call {
  const unknown = ["req_0", "req_00000000000000000000", "x/y", "'%20OR%201=1", "%ff", "__proto__"];
  // The one that is limited belongs to another account.
  return chance.chance(0.5)
    ? getting("/v1/requests/{id}", `/v1/requests/${targets.receipt}`, [200, 404], chance)
    : getting("/v1/requests/{id}", `/v1/requests/${chance.pick(unknown)}`, [404], chance);
}

function requestList({ models }: FuzzTargets, chance: Chance): Call {
  const model = `?model=${encodeURIComponent(chance.pick(models))}`;
  const good = ["", "?", "?limit=100", "?status=done", "?status=failed&limit=1", model];
  const bad = ["?limit=0", "?limit=x", "?before=x", "?before=", "?status=x", "?model=", "?x=1"];
  return chance.chance(0.6)
    ? getting("/v1/requests", `/v1/requests${chance.pick(good)}`, [200, 429], chance)
    : getting("/v1/requests", `/v1/requests${chance.pick(bad)}`, [400], chance);
}

function redemption({ code }: FuzzTargets, chance: Chance): Call {
  const path = "/v1/vouchers/redeem";
  // Its voucher belongs to one account. The others soon have too many wrong codes.
  const typed = chance.pick([code, code.toLowerCase(), code.replaceAll("-", " ")]);
  const bad = ["{}", "[]", "null", '{"code":5}', '{"code":"x"}', `{"code":"${code}","x":1}`, "{"];
  const isGood = chance.chance(0.6);
  const bytes = Buffer.from(isGood ? JSON.stringify({ code: typed }) : chance.pick(bad));
  const statuses = isGood ? [200, 404, 429] : [400];
  return {
    method: "POST",
    target: disguised(path, chance),
    operation: `POST ${path}`,
    statuses,
    needsKey: true,
    body: { bytes, statuses },
  };
}

function usage(chance: Chance): Call {
  const good = [
    "",
    "?",
    "?by=day",
    "?by=model",
    "?since=7d",
    "?since=7d&until=0d",
    "?by=%6dodel",
    "?by=day,model",
    "?by=hour",
    "?by=hour%2Cmodel&since=2d",
  ];
  const bad = [
    "?by=key",
    "?by=",
    "?since=2026-02-30",
    "?since=-1d",
    "?x=1",
    "?by=day&by=day",
    "?by=hour&since=3d",
    "?%ff",
  ];
  // A client with several report requests at once is refused with 429.
  return chance.chance(0.6)
    ? getting("/v1/usage", `/v1/usage${chance.pick(good)}`, [200, 429], chance)
    : getting("/v1/usage", `/v1/usage${chance.pick(bad)}`, [400], chance);
}

const otherMethods = ["PUT", "DELETE", "PATCH", "TRACE"] as const;
const nowhere = [
  "/",
  "/v1",
  "/v1/",
  "/v1/models/",
  "//v1/models",
  "/V1/models",
  "/v1/model",
  "/v1%2Fmodels",
  "/v1/models;x",
  "/v1/../admin",
  "/healthz/",
  "/metrics",
  "/v1/chat",
  "/v1/chat/completions/",
  "/v1/chat/completions%00",
  "/.git/config",
  "/%",
  "/\u00ff",
  "/?/v1/models",
  "/#/v1/models",
] as const;

/** No such path, or not with this method; whether with a key or without. */
function nothing({ models }: FuzzTargets, chance: Chance): Call {
  const call = { operation: undefined, statuses: [404], needsKey: false };
  const target = chance.pick(nowhere);
  // For an empty id the gateway may answer 401 before 404.
  const isEmptyId = target === "/v1/models/";
  if (chance.chance(0.5))
    return { ...call, method: "GET", target, ...(isEmptyId ? { statuses: [401, 404, 429] } : {}) };
  const body = { ...bodyFor("chat", models, chance), statuses: [404] };
  const path = chance.pick(["/v1/chat/completions", "/v1/models", "/healthz", "/v1/account", "/x"]);
  return { ...call, method: chance.pick(otherMethods), target: path, body };
}

/** The same target in another spelling. */
function disguised(target: string, chance: Chance): string {
  if (chance.chance(0.9)) return target;
  const query =
    target.includes("?") || /^\/v1\/(?:usage|requests)\b/.test(target) ? "" : "?a=b&key=c#d";
  return chance.pick([
    `http://evil.example${target}`,
    `https://localhost:1${target}`,
    target.replace("/", "/./"),
    target.replace("/", "/x/../"),
    target.replace("/", "/%2e/"),
    target + query,
  ]);
}

const hosts = ["Host: localhost", "Host: x", "host: 127.0.0.1:1", "HOST: evil.example"] as const;
const foreignHosts = ["a/healthz?", "a?b", "a#b", "a@b", "a b", "a\tb", "a\\b"] as const;

/** Some hosts could move the path, and are refused. A target with dot segments needs a host to be resolved. */
function hostFor(target: string, chance: Chance): { line: string; isForeign: boolean } {
  if (chance.chance(0.02)) return { line: `Host: ${chance.pick(foreignHosts)}`, isForeign: true };
  const isStraight = !/\/\.|\/%2e/.test(target);
  const line = isStraight && chance.chance(0.1) ? "Host:" : chance.pick(hosts);
  return { line, isForeign: false };
}

function contentType(chance: Chance): { line: string; isJson: boolean } {
  const json = ["application/json", "Application/JSON", "application/json; charset=UTF-8"] as const;
  const other = [
    "text/plain",
    "application/x-www-form-urlencoded",
    "multipart/form-data",
    "a",
  ] as const;
  return chance.chance(0.97)
    ? { line: `Content-Type: ${chance.pick(json)}`, isJson: true }
    : { line: `Content-Type: ${chance.pick(other)}`, isJson: false };
}

/** Some clients send a body with a GET. */
function strayBody(call: Call, chance: Chance): Buffer | undefined {
  return call.method === "GET" && chance.chance(0.03) ? Buffer.from("hello") : undefined;
}

/** A body as it travels: with its length, or in chunks. */
function framed(
  body: Buffer | undefined,
  version: string,
  chance: Chance,
): { lines: readonly string[]; body: Buffer } {
  if (body === undefined) return { lines: [], body: Buffer.alloc(0) };
  const expect = chance.chance(0.02) ? ["Expect: 100-continue"] : [];
  // HTTP/1.0 knows no chunks.
  if (version === "HTTP/1.0" || chance.chance(0.8))
    return { lines: [...expect, `Content-Length: ${body.length}`], body };
  return { lines: [...expect, "Transfer-Encoding: chunked"], body: chunked(body, chance) };
}

function chunked(body: Buffer, chance: Chance): Buffer {
  const size = 1 + chance.below(Math.max(body.length, 10));
  const pieces = several(Math.ceil(body.length / size), (at) =>
    body.subarray(at * size, (at + 1) * size),
  );
  const extension = chance.pick(["", "", "", ";a=b", ";a"]);
  return Buffer.concat([
    ...pieces.flatMap((piece) => [
      Buffer.from(`${piece.length.toString(16)}${extension}\r\n`),
      piece,
      Buffer.from("\r\n"),
    ]),
    Buffer.from(`0${extension}\r\n\r\n`),
  ]);
}

function shuffled<Item>(items: readonly Item[], chance: Chance): Item[] {
  const drawn = items.map((item): [number, Item] => [chance.below(1 << 30), item]);
  return drawn.toSorted(([a], [b]) => a - b).map(([, item]) => item);
}
