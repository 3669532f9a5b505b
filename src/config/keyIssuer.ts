import type { Inspection } from "./inspection.ts";
import { choice, duration, names, text, type Table, type Values } from "./option.ts";
import { parseUrl } from "./serverUrl.ts";

/** A command that writes a key which expires: of a provider, or of one account. */
export const commandOptions = {
  apiKeyCommand: names("api_key_command", {
    serveOnly: true,
    doc: 'A command that writes the key, such as ["gcloud", "auth", "print-access-token"], instead of api_key. It runs without a shell, and a path is relative to the folder of the config. It may write JSON that says when the key expires. The key is kept, and renewed before its end.',
  }),
  apiKeyLifetimeMs: duration("api_key_lifetime", {
    default: "10m",
    min: "1s",
    max: "24h",
    serveOnly: true,
    doc: "For how long a key of api_key_command is used, if the command does not write when it expires.",
  }),
} as const;

export const gigachatOptions = {
  auth: choice("auth", ["key", "gigachat"], {
    default: "key",
    serveOnly: true,
    example: false,
    only: "openai",
    doc: 'How requests are authorized. "key": by the key. "gigachat": by an access token, which the gateway gets for the authorization key in api_key, and renews: docs/providers/gigachat.md.',
  }),
  scope: choice("scope", ["GIGACHAT_API_PERS", "GIGACHAT_API_B2B", "GIGACHAT_API_CORP"], {
    default: "GIGACHAT_API_PERS",
    serveOnly: true,
    example: false,
    doc: 'The scope of the access token, with auth = "gigachat".',
  }),
  tokenUrl: text("token_url", {
    default: "https://ngw.devices.sberbank.ru:9443/api/v2/oauth",
    serveOnly: true,
    example: false,
    doc: 'The address that gives access tokens, with auth = "gigachat".',
  }),
} as const;

/** How a key that expires is got. */
export type KeyIssuer =
  | {
      readonly kind: "command";
      readonly command: readonly string[];
      /** For a key whose command does not write when it expires. */
      readonly lifetimeMs: number;
    }
  | { readonly kind: "gigachat"; readonly scope: string; readonly tokenUrl: string };

/** GigaChat's login; undefined without it. Problems go to the inspection. */
export function readGigachat(
  { auth, scope, tokenUrl }: Values<typeof gigachatOptions>,
  table: Table,
  at: string,
  inspection: Inspection,
): KeyIssuer | undefined {
  if (auth === "gigachat") {
    if (parseUrl(tokenUrl) === undefined)
      inspection.problem(`${at}.token_url`, "must be a URL that begins with https:// or http://");
    return { kind: "gigachat", scope, tokenUrl };
  }
  for (const key of ["scope", "token_url"])
    if (Object.hasOwn(table, key))
      inspection.problem(`${at}.${key}`, 'requires auth = "gigachat": set it, or remove this key');
  return undefined;
}

/** The command of a provider or an account; undefined without one. Problems go to the inspection. */
export function readKeyCommand(
  { apiKeyCommand, apiKeyLifetimeMs }: Values<typeof commandOptions>,
  inspection: Inspection,
): KeyIssuer | undefined {
  const [program, ...others] = apiKeyCommand;
  if (program === undefined) return undefined;
  // A name without a slash is looked for in PATH.
  const path = program.includes("/") ? inspection.absolutePath(program) : program;
  return { kind: "command", command: [path, ...others], lifetimeMs: apiKeyLifetimeMs };
}
