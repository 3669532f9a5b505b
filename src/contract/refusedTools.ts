import { isJsonObject, type JsonFields } from "../lib/json.ts";
import { walk } from "../lib/walk.ts";
import { invalidRequest } from "./errors.ts";
import { ownValue } from "./sharedFields.ts";

/**
 * Throws ApiError 400 for a tool of a type that the operator refuses, also among the tools that another one holds or
 * that an item of an input brings: `additional_tools` and `tool_search_output` do,
 * https://platform.openai.com/docs/api-reference/responses/create#responses-create-input. What a caller's function is
 * described with is no tool.
 */
export function refuseTools(body: JsonFields, refusedTools: readonly string[]): void {
  if (refusedTools.length === 0) return;
  // No item has a type that is a tool's as well, so items need not be told from tools.
  walk([ownValue(body, "tools"), ownValue(body, "input")], (found, key) => {
    if (key !== undefined && key !== "tools") return false;
    const type = isJsonObject(found) ? ownValue(found, "type") : undefined;
    if (typeof type === "string" && refusedTools.includes(type)) {
      throw invalidRequest(`tools of the type ${type} are not supported`);
    }
    return typeof found === "object";
  });
}
