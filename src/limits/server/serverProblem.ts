import { errorCode } from "../../lib/systemError.ts";

/** Why the limits server cannot be used. The message is for operators. It never contains the URL or the password. */
export class ServerProblem {
  readonly words: string;
  /** True: the server refuses this client, so an operator must act. False: it may come back by itself. */
  readonly isRefusal: boolean;

  constructor(words: string, isRefusal = false) {
    this.words = words;
    this.isRefusal = isRefusal;
  }
}

export function slowerThan(ms: number): ServerProblem {
  return new ServerProblem(`no answer within ${ms} ms`);
}

const lost = new ServerProblem("no connection: nothing accepts it, or it was closed");

/** The code word of an error of the server, or a phrase of an error within a script, with what to tell the operator. */
const refusals: readonly (readonly [RegExp, string])[] = [
  [/\bWRONGPASS\b/, "it refuses the user or the password of limits.redis"],
  [/\bNOAUTH\b/, "it asks for a password: write one into limits.redis"],
  [
    /\bNOPERM\b|user executing the script/,
    "its user lacks a permission: allow the keys tollgate:* and the commands (ACL SETUSER USER ~tollgate:* +@all -@dangerous +info)",
  ],
  [/\bREADONLY\b/, "it is a read-only replica: use the address of the primary"],
  [/\bOOM\b/, "its memory is full: raise its maxmemory"],
  [/\bMISCONF\b/, "it refuses writes because it cannot save to its disk"],
  [/\b(?:MOVED|ASK|CROSSSLOT|CLUSTERDOWN)\b/, "it is a cluster, which is not supported"],
  [
    /\bWRONGTYPE\b/,
    "another program uses its keys tollgate:*: give the gateways a database of their own",
  ],
  [/\bDB index\b/, "it has no database of the number in limits.redis"],
  [/\bunknown command\b/i, "it lacks a command: use Valkey, or Redis 7 or later"],
];

/** What the server says while it starts, or while something else keeps it busy. */
const passing: readonly (readonly [RegExp, string])[] = [
  [/\bLOADING\b/, "it is loading its data"],
  [/\bMASTERDOWN\b/, "it has lost its primary"],
  [/\bBUSY\b/, "it is busy with a script of another program"],
];

/** The problem behind an error of Bun's client. */
export function problemOf(error: unknown): ServerProblem {
  const code = errorCode(error) ?? "";
  const message = error instanceof Error ? error.message : "";
  if (code === "ERR_REDIS_CONNECTION_CLOSED") return lost;
  if (code === "ERR_REDIS_CONNECTION_TIMEOUT")
    return new ServerProblem("no answer to a connection");
  if (code.startsWith("ERR_REDIS_INVALID_RESPONSE"))
    return new ServerProblem("what answers at its address is no Valkey and no Redis", true);
  if (!code.startsWith("ERR_REDIS_"))
    return new ServerProblem(`its certificate is not accepted (${code || "unknown"})`, true);
  const words = wordsIn(refusals, message);
  if (words !== undefined) return new ServerProblem(words, true);
  return new ServerProblem(wordsIn(passing, message) ?? `it answers with ${firstWord(message)}`);
}

function wordsIn(table: readonly (readonly [RegExp, string])[], message: string) {
  return table.find(([pattern]) => pattern.test(message))?.[1];
}

/** Further words of an error may quote what was sent. */
function firstWord(message: string): string {
  return /^[A-Z]{2,20}\b/.exec(message)?.[0] ?? "an unknown error";
}
