import { isJsonObject } from "../lib/json.ts";

/** Calls that a client answers in its next request; all others of an output the provider has answered by itself. */
const CLIENT_CALLS: ReadonlySet<string> = new Set([
  "function_call",
  "custom_tool_call",
  "computer_call",
  "local_shell_call",
  "shell_call",
  "apply_patch_call",
]);

/** How many calls of tools that the provider runs, such as `web_search_call`, the output of a response has. */
export function providerCallsOf(output: unknown): number {
  return Array.isArray(output) ? output.filter(isProviderCall).length : 0;
}

/** Whether an item of an output is such a call. */
export function isProviderCall(item: unknown): boolean {
  if (!isJsonObject(item)) return false;
  const { type } = item;
  return typeof type === "string" && type.endsWith("_call") && !CLIENT_CALLS.has(type);
}
