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
  if (!Array.isArray(output)) return false;
  return output.filter(isJsonObject).some(({ type }) => {
    return typeof type === "string" && type.endsWith("_call") && !CLIENT_CALLS.has(type);
  });
}
