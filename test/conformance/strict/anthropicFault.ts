import { Refused } from "./strictServer.ts";

/** https://platform.claude.com/docs/en/api/errors */
export function anthropicFault(message: string): Refused {
  const error = { type: "invalid_request_error", message };
  return new Refused(400, { type: "error", error, request_id: "req_011" });
}
