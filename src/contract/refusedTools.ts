import { isJsonObject, type JsonFields } from "../lib/json.ts";
import { invalidRequest } from "./errors.ts";
import { ownValue } from "./sharedFields.ts";

/**
 * Throws ApiError 400 for a tool of a type that the operator refuses, also among the tools that another one holds. What
 * a caller's function is described with is no tool.
 */
export function refuseTools(body: JsonFields, refusedTools: readonly string[]): void {
  if (refusedTools.length === 0) return;
  // Clients choose how deep they nest, so what is left to look at stands on a stack of our own.
  const left: unknown[] = [ownValue(body, "tools")];
  while (left.length > 0) {
    const tools = left.pop();
    for (const tool of Array.isArray(tools) ? tools : [tools]) {
      if (Array.isArray(tool)) left.push(tool);
      if (!isJsonObject(tool)) continue;
      const type = ownValue(tool, "type");
      if (typeof type === "string" && refusedTools.includes(type)) {
        throw invalidRequest(`tools of the type ${type} are not supported`);
      }
      left.push(ownValue(tool, "tools"));
    }
  }
}
