import { fieldsOf, isGiven, walk, type JsonFields } from "../lib/json.ts";
import { beginningOf, bytesOfString } from "../lib/outline.ts";

/** Of a longer text only the beginning and the size name the session. */
const TEXT_UNITS_MAX = 256;

/** The roles of messages that tell a model its task. */
const SYSTEM_ROLES: ReadonlySet<unknown> = new Set(["system", "developer"]);

/** Keys of parts whose values are not of the conversation. A client moves `cache_control` with each turn. */
const PART_SETTINGS: ReadonlySet<string | undefined> = new Set(["type", "cache_control"]);

/**
 * The name of the session that a request belongs to: `prompt_cache_key`, `metadata.user_id` or `user`, else a hash of what a
 * conversation begins with, which all its turns have. Undefined without any of them. `body` may be an outline of `json`
 * (`lib/outline.ts`): the name is the same.
 */
export function sessionNameOf(body: JsonFields, json: Uint8Array): string | undefined {
  return sessionIdOf(body) ?? beginningHash(body, json);
}

/** The name that the client gives to the session. */
export function sessionIdOf({ prompt_cache_key, metadata, user }: JsonFields): string | undefined {
  const ids = [prompt_cache_key, fieldsOf(metadata)["user_id"], user];
  return ids.find((id): id is string => typeof id === "string" && id !== "");
}

/** A hash of the system text, the names of the tools and the first message of the user. */
function beginningHash(body: JsonFields, json: Uint8Array): string | undefined {
  const { system, instructions, messages, input, tools } = body;
  const turns = [messages ?? input].flat();
  const first = turns.findIndex((turn) => typeof turn === "string" || roleOf(turn) === "user");
  const before = turns
    .slice(0, Math.max(first, 0))
    .filter((turn) => SYSTEM_ROLES.has(roleOf(turn)));
  const conversation = [system, instructions, ...before, turns[first]].filter(isGiven);
  if (conversation.length === 0) return undefined;
  const pieces = [tools].flat().map(toolNameOf);
  walk(conversation, (found, key) => {
    if (PART_SETTINGS.has(key)) return false;
    if (typeof found !== "string") return true;
    pieces.push(`${bytesOfString(found)} ${beginningOf(found, TEXT_UNITS_MAX, json)}`);
    return false;
  });
  return Bun.hash.xxHash64(pieces.join("\n")).toString(36);
}

function roleOf(turn: unknown): unknown {
  return fieldsOf(turn)["role"];
}

function toolNameOf(tool: unknown): string {
  const { function: own, name, type } = fieldsOf(tool);
  return String(fieldsOf(own)["name"] ?? name ?? type);
}
