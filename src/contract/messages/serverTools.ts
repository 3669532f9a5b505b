import { fieldsOf, type JsonFields } from "../../lib/json.ts";
import { invalidRequest } from "../errors.ts";

/** The tools of a request that the provider runs. */
export interface ServerTools {
  /** The prompt grows by their results. */
  readonly areAny: boolean;
  /** The most web searches; undefined without such a tool. */
  readonly webSearchesMax: number | undefined;
}

/** Tools of the client with a definition that the provider knows, such as `bash_20250124`. They cost only tokens. */
const CLIENT_TOOLS = /^(?:bash|computer|memory|str_replace_based_edit_tool|text_editor)_\d{8}$/;
/**
 * Tools of the provider that cost only tokens:
 * https://platform.claude.com/docs/en/about-claude/pricing#tool-use-pricing
 */
const TOKEN_TOOLS = /^(?:web_fetch_\d{8}|tool_search_tool_(?:bm25|regex)(?:_\d{8})?|mcp_toolset)$/;
const WEB_SEARCH = /^web_search_\d{8}$/;

/** How many searches are held for if the client sets no `max_uses`. More are charged too. */
const WEB_SEARCHES_DEFAULT = 20;
/** The limit for all tools of a request together. More than any answer needs. */
const WEB_SEARCHES_MAX = 1000;

/**
 * Reads the definitions of tools. Throws ApiError 400 for a tool with a price that the config cannot express, such as
 * code execution by the hour, and for one that the gateway does not know.
 */
export function readServerTools(tools: unknown): ServerTools {
  let areAny = false;
  let webSearchesMax: number | undefined;
  const list: readonly unknown[] = Array.isArray(tools) ? tools : [];
  for (const [index, definition] of list.entries()) {
    const tool = fieldsOf(definition);
    const { type = "custom" } = tool;
    if (type === "custom" || type === null) continue;
    const name = typeof type === "string" ? type : "";
    if (CLIENT_TOOLS.test(name)) continue;
    areAny = true;
    if (WEB_SEARCH.test(name)) {
      webSearchesMax = (webSearchesMax ?? 0) + searchesOf(tool, `tools[${index}]`);
      if (webSearchesMax > WEB_SEARCHES_MAX) {
        throw invalidRequest(`tools must allow at most ${WEB_SEARCHES_MAX} web searches together`);
      }
    } else if (!TOKEN_TOOLS.test(name)) {
      throw invalidRequest(`tools[${index}] is of a type that is not supported: it has no price`);
    }
  }
  return { areAny, webSearchesMax };
}

function searchesOf({ max_uses: uses = null }: JsonFields, path: string): number {
  if (uses === null) return WEB_SEARCHES_DEFAULT;
  const isCount = typeof uses === "number" && Number.isInteger(uses) && uses >= 1;
  if (isCount && uses <= WEB_SEARCHES_MAX) return uses;
  throw invalidRequest(`${path}.max_uses must be an integer from 1 to ${WEB_SEARCHES_MAX}`);
}
