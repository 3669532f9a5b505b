import { isJsonObject, type JsonFields } from "../lib/json.ts";
import { walk } from "../lib/walk.ts";
import { invalidRequest } from "./errors.ts";
import { isInOtherCase } from "./keyCase.ts";

const CACHE_CONTROL: ReadonlySet<string> = new Set(["cache_control"]);
const TTL: ReadonlySet<string> = new Set(["ttl"]);
const USUAL_TTL = "5m";

/**
 * Throws ApiError 400 for a cache of the prompt that is to be kept for longer than usual, wherever in a body it is asked
 * for: writing it costs more than a model's one price for that. Providers of any kind may serve Anthropic's models:
 * https://platform.claude.com/docs/en/build-with-claude/prompt-caching#pricing
 */
export function refuseLongCaches(body: JsonFields): void {
  walk(body, (found, key) => {
    if (key !== undefined && isNamed(key, CACHE_CONTROL) && isJsonObject(found)) {
      const isLong = Object.keys(found).some((name) => isNamed(name, TTL) && !isUsual(found[name]));
      if (isLong) throw invalidRequest(`cache_control beyond ${USUAL_TTL} is not supported`);
    }
    return typeof found === "object";
  });
}

function isNamed(key: string, names: ReadonlySet<string>): boolean {
  return names.has(key) || isInOtherCase(key, names);
}

function isUsual(ttl: unknown): boolean {
  return (ttl ?? USUAL_TTL) === USUAL_TTL;
}
