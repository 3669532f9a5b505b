import { SOON_MS } from "../../contract/errors.ts";
import type { KeyLimits } from "../keyRates.ts";
import type { RateLimitResult } from "../tokenBucket.ts";

/** A script in Lua, which the server runs as one step. It is called by the SHA-1 of its text. */
interface Script {
  readonly text: string;
  readonly sha1: string;
}

/** One call of a script. */
export interface ScriptCall {
  readonly script: Script;
  readonly keys: readonly string[];
  readonly args: readonly string[];
}

/** What a script returns: texts and whole numbers. */
export type Reply = readonly unknown[];

/**
 * The time in ms by the clock of the server, and the buckets of KEYS[1]: a hash with level, limit and time of each. The
 * arithmetic is that of TokenBucket. Numbers are stored as texts of 17 digits, or they would be rounded.
 */
const BUCKETS = `
local time = redis.call('TIME')
local now = time[1] * 1000 + time[2] / 1000
local function text(number) return string.format('%.17g', number) end

-- A changed limit leaves the same part of the level. A bucket that is not stored is full.
local function level_of(name, limit)
  local stored = redis.call('HMGET', KEYS[1], name, name .. '_limit', name .. '_at')
  if not stored[1] then return limit end
  local before = tonumber(stored[2])
  local passed = math.max(0, now - stored[3])
  return math.min(before, stored[1] + passed * before / 60000) * (limit / before)
end

local function store(name, limit, level)
  if limit > 0 then
    redis.call('HSET', KEYS[1], name, text(level), name .. '_limit', limit, name .. '_at', text(now))
  else
    redis.call('HDEL', KEYS[1], name, name .. '_limit', name .. '_at')
  end
end

local function wait(limit, level, wanted) return math.max(0, (wanted - level) * 60000 / limit) end

-- The bucket of requests is full after a minute, that of tokens may need longer. A key lives for at most a day.
local function expire(limit, level)
  local full = limit > 0 and wait(limit, level, limit) or 0
  redis.call('PEXPIRE', KEYS[1], math.ceil(math.min(math.max(full, 120000), 86400000)))
end
`;

/**
 * Takes one request and one slot, or nothing. A refusal writes nothing: with full memory a server stops a script at
 * its first write. KEYS[2] has the slots: a sorted set of names by the time at which each ends unless it is renewed.
 * ARGV: the three limits, the name of the slot, its life in ms.
 */
const ADMIT = script(`${BUCKETS}
local requests, tokens, slots = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])
local request_level, token_level, used = level_of('requests', requests), level_of('tokens', tokens), 0
if slots > 0 then used = redis.call('ZCOUNT', KEYS[2], '(' .. text(now), '+inf') end
if slots > 0 and used >= slots then
  return {'no slot', '0', text(request_level), text(token_level), used}
end
if requests > 0 and request_level < 1 then
  return {'no request', text(wait(requests, request_level, 1)), text(request_level), text(token_level), used}
end
if slots > 0 then
  redis.call('ZADD', KEYS[2], text(now + ARGV[5]), ARGV[4])
  redis.call('ZREMRANGEBYSCORE', KEYS[2], '-inf', text(now))
  redis.call('PEXPIRE', KEYS[2], ARGV[5])
  used = used + 1
end
request_level = request_level - 1
store('requests', requests, request_level)
store('tokens', tokens, token_level)
expire(tokens, token_level)
return {'admitted', '0', text(request_level), text(token_level), used}
`);

/** Takes tokens or nothing (take), or takes or returns them whatever the level is (correct). ARGV: limit, amount, which. */
const TOKENS = script(`${BUCKETS}
local limit, amount = tonumber(ARGV[1]), tonumber(ARGV[2])
local level = level_of('tokens', limit)
local wanted = math.min(amount, limit)
if ARGV[3] == 'take' and level < wanted then
  return {'no tokens', text(wait(limit, level, wanted)), text(level)}
end
level = math.min(limit, level - amount)
store('tokens', limit, level)
expire(limit, level)
return {'taken', '0', text(level)}
`);

/**
 * Renews slots. A slot that the server has lost, or never had, exists afterwards. ARGV: life, then for each key the
 * number of names and the names.
 */
const RENEW = script(`
local time = redis.call('TIME')
local ends = string.format('%.17g', time[1] * 1000 + time[2] / 1000 + ARGV[1])
local at = 2
for _, key in ipairs(KEYS) do
  local last = at + ARGV[at]
  for i = at + 1, last do redis.call('ZADD', key, ends, ARGV[i]) end
  redis.call('PEXPIRE', key, ARGV[1])
  at = last + 1
end
return {}
`);

const RELEASE = script(`
redis.call('ZREM', KEYS[1], ARGV[1])
return {}
`);

/** All scripts, to be loaded before they are called. */
export const scriptTexts: readonly string[] = [ADMIT, TOKENS, RENEW, RELEASE].map(
  ({ text }) => text,
);

function script(text: string): Script {
  return { text, sha1: new Bun.CryptoHasher("sha1").update(text).digest("hex") };
}

/** A key of the server. It has the number of an API key: never the key itself, an account or an address. */
function ratesKey(keyId: number): string {
  return `tollgate:rates:${keyId}`;
}

function slotsKey(keyId: number): string {
  return `tollgate:slots:${keyId}`;
}

/** One slot of a replica. The replica renews it before `lifeMs` have passed. */
export interface Slot {
  readonly name: string;
  readonly lifeMs: number;
}

export function admitCall(keyId: number, limits: KeyLimits, { name, lifeMs }: Slot): ScriptCall {
  const { requestsPerMinute, tokensPerMinute, concurrentRequests } = limits;
  return {
    script: ADMIT,
    keys: [ratesKey(keyId), slotsKey(keyId)],
    args: [
      String(requestsPerMinute),
      String(tokensPerMinute),
      String(concurrentRequests),
      name,
      String(lifeMs),
    ],
  };
}

/** What the server knows of a key after a request for a slot. */
export interface AdmissionReply {
  readonly result: RateLimitResult;
  readonly requestLevel: number;
  readonly tokenLevel: number;
  /** The slots of all replicas. */
  readonly usedSlots: number;
}

export function readAdmission(reply: Reply): AdmissionReply {
  const [verdict, waitMs, requestLevel, tokenLevel, usedSlots] = reply;
  const retryAfterMs = verdict === "no slot" ? SOON_MS : Number(waitMs);
  const result: RateLimitResult =
    verdict === "admitted" ? { ok: true } : { ok: false, retryAfterMs };
  return {
    result,
    requestLevel: Number(requestLevel),
    tokenLevel: Number(tokenLevel),
    usedSlots: Number(usedSlots),
  };
}

export function takeTokensCall(keyId: number, perMinute: number, amount: number): ScriptCall {
  return tokensCall(keyId, perMinute, amount, "take");
}

/** Takes tokens, or returns them if the difference is negative. */
export function correctTokensCall(
  keyId: number,
  perMinute: number,
  difference: number,
): ScriptCall {
  return tokensCall(keyId, perMinute, difference, "correct");
}

function tokensCall(
  keyId: number,
  perMinute: number,
  amount: number,
  what: "take" | "correct",
): ScriptCall {
  return {
    script: TOKENS,
    keys: [ratesKey(keyId)],
    args: [String(perMinute), String(amount), what],
  };
}

export interface TokensReply {
  readonly result: RateLimitResult;
  readonly level: number;
}

export function readTokens([verdict, waitMs, level]: Reply): TokensReply {
  const result: RateLimitResult =
    verdict === "taken" ? { ok: true } : { ok: false, retryAfterMs: Number(waitMs) };
  return { result, level: Number(level) };
}

export function renewCall(
  names: ReadonlyMap<number, readonly string[]>,
  lifeMs: number,
): ScriptCall {
  const keys: string[] = [];
  const args = [String(lifeMs)];
  for (const [keyId, ofKey] of names) {
    keys.push(slotsKey(keyId));
    args.push(String(ofKey.length), ...ofKey);
  }
  return { script: RENEW, keys, args };
}

export function releaseCall(keyId: number, name: string): ScriptCall {
  return { script: RELEASE, keys: [slotsKey(keyId)], args: [name] };
}

/** No API key has this number. */
const NO_KEY = 0;

/** Tries what each request needs: scripts, the names of the keys, memory, and the right to write. It is always admitted. */
export const probeCall: ScriptCall = admitCall(
  NO_KEY,
  { requestsPerMinute: 1e9, tokensPerMinute: 1, concurrentRequests: 1e6 },
  { name: "probe", lifeMs: 1000 },
);
