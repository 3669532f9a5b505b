import { isJsonObject } from "../../lib/json.ts";

/** Calls that a client answers in its next request; all others of an output the provider has answered by itself. */
const CLIENT_CALLS: ReadonlySet<string> = new Set([
  "function_call",
  "custom_tool_call",
  "computer_call",
  "local_shell_call",
  "shell_call",
  "apply_patch_call",
]);

/** Whether a response called tools that the provider runs, such as `web_search_call`, by its output. */
export function ranProviderTools(output: unknown): boolean {
  return Array.isArray(output) && output.some(isProviderCall);
}

/** Whether an item of an output is such a call. */
export function isProviderCall(item: unknown): boolean {
  if (!isJsonObject(item)) return false;
  const { type } = item;
  return typeof type === "string" && type.endsWith("_call") && !CLIENT_CALLS.has(type);
}
