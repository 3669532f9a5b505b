import { fieldsOf, type JsonFields } from "../../lib/json.ts";
import { invalidRequest } from "../errors.ts";
import { isClientTool, isWebSearch, WEB_SEARCHES_DEFAULT, WEB_SEARCHES_MAX } from "../extras.ts";

/** The tools of a request that the provider runs. */
export interface ServerTools {
  /** The prompt grows by their results. */
  readonly areAny: boolean;
  /** The most web searches; undefined without such a tool. */
  readonly webSearchesMax: number | undefined;
  /** The type of the first such tool, such as `web_search_20250305`. */
  readonly webSearchType: string | undefined;
}

/** Reads the definitions of tools that `refuseExtras` lets pass. Throws ApiError 400 for too many searches. */
export function readServerTools(tools: unknown): ServerTools {
  let areAny = false;
  let webSearchesMax: number | undefined;
  let webSearchType: string | undefined;
  const list: readonly unknown[] = Array.isArray(tools) ? tools : [];
  for (const [index, definition] of list.entries()) {
    const tool = fieldsOf(definition);
    if (isClientTool(tool)) continue;
    areAny = true;
    const { type } = tool;
    if (typeof type !== "string" || !isWebSearch(type)) continue;
    webSearchType ??= type;
    webSearchesMax = (webSearchesMax ?? 0) + searchesOf(tool, `tools[${index}]`);
    if (webSearchesMax > WEB_SEARCHES_MAX) {
      throw invalidRequest(`tools must allow at most ${WEB_SEARCHES_MAX} web searches together`);
    }
  }
  return { areAny, webSearchesMax, webSearchType };
}

function searchesOf({ max_uses: uses = null }: JsonFields, path: string): number {
  if (uses === null) return WEB_SEARCHES_DEFAULT;
  const isCount = typeof uses === "number" && Number.isInteger(uses) && uses >= 1;
  if (isCount && uses <= WEB_SEARCHES_MAX) return uses;
  throw invalidRequest(`${path}.max_uses must be an integer from 1 to ${WEB_SEARCHES_MAX}`);
}
