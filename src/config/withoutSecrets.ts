/** What only a serving gateway needs: it is often set in the environment of the service alone, or readable to it alone. */
const SERVER_KEYS = new Set(["tls_cert", "tls_key"]);
const PROVIDER_KEYS = new Set(["api_key", "api_key_file", "headers", "proxy", "ca_file"]);

/** Those of both whose value is the name of a file. */
const FILE_KEYS = new Set(["tls_cert", "tls_key", "api_key_file", "ca_file"]);

/** A copy of a parsed TOML tree without its secrets and the files they are in. */
export function withoutSecrets(tree: unknown): unknown {
  if (!isTable(tree)) return tree;
  const { server, providers } = tree;
  return {
    ...tree,
    ...(isTable(server) ? { server: omit(server, SERVER_KEYS) } : {}),
    ...(Array.isArray(providers)
      ? {
          providers: providers.map((one: unknown) =>
            isTable(one) ? omit(one, PROVIDER_KEYS) : one,
          ),
        }
      : {}),
  };
}

/** The names of the files that {@link withoutSecrets} passes over, as they stand in the tree. */
export function secretFilesIn(tree: unknown): readonly string[] {
  if (!isTable(tree)) return [];
  const { server, providers } = tree;
  const listed: readonly unknown[] = Array.isArray(providers) ? providers : [];
  return [server, ...listed]
    .filter(isTable)
    .flatMap((table) => [...FILE_KEYS].map((key) => table[key]))
    .filter((value) => typeof value === "string");
}

function isTable(value: unknown): value is Readonly<Record<string, unknown>> {
  return (
    typeof value === "object" && value !== null && !Array.isArray(value) && !(value instanceof Date)
  );
}

function omit(
  table: Readonly<Record<string, unknown>>,
  keys: ReadonlySet<string>,
): Record<string, unknown> {
  return Object.fromEntries(Object.entries(table).filter(([key]) => !keys.has(key)));
}
