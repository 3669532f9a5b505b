import { areDrawn, type Candidate } from "../../routing/candidates.ts";
import type { RequestScope } from "../requestScope.ts";

/**
 * Headers that name a session. The first is the general one, which opencode sends too. The others are of Claude Code
 * (https://code.claude.com/docs/en/llm-gateway-protocol), of Codex, whose name for it changed twice
 * (https://github.com/openai/codex/tree/main/codex-rs/codex-api), and of opencode
 * (https://github.com/sst/opencode/blob/dev/packages/opencode/src/session/llm.ts).
 */
const SESSION_HEADERS = [
  "x-session-id",
  "x-claude-code-session-id",
  "session-id",
  "session_id",
  "conversation_id",
  "x-opencode-session",
  "x-session-affinity",
] as const;

/**
 * A hash of the session within the account, which also is the same in each process. `nameInBody` is called only if there
 * is something to draw. Undefined if the routes are to be drawn at random.
 */
export function sessionOf(
  scope: RequestScope,
  candidates: readonly Candidate[],
  nameInBody: () => string | undefined,
): bigint | undefined {
  const { snapshot, caller } = scope;
  if (snapshot.config.routing.affinity === "none" || !areDrawn(candidates)) return undefined;
  const name =
    SESSION_HEADERS.map((header) => scope.header(header)).find((name) => name) ?? nameInBody();
  return name === undefined ? undefined : Bun.hash.xxHash64(name, BigInt(caller.accountId));
}
