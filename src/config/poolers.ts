/** A service that offers a pooler in transaction mode. */
interface PoolingService {
  readonly fits: (url: URL) => boolean;
  /** The end of "use the URL of the server itself, or a pooler in session mode: ". */
  readonly instead: (url: URL) => string;
}

const services: readonly PoolingService[] = [
  {
    // https://neon.com/docs/connect/connection-pooling
    fits: ({ hostname }) => /^[^.]+-pooler\./.test(hostname) && hostname.endsWith(".neon.tech"),
    instead: ({ hostname }) =>
      `at Neon the host without -pooler, ${hostname.replace("-pooler.", ".")}`,
  },
  {
    // https://supabase.com/docs/guides/database/connecting-to-postgres
    fits: ({ hostname, port }) => /\.supabase\.(?:com|co)$/.test(hostname) && port === "6543",
    instead: () => "at Supabase the port 5432 in place of 6543",
  },
];

/** The problem with the URL of a known service's pooler in transaction mode. Undefined for any other URL. */
export function poolerProblem(url: URL): string | undefined {
  if (!services.some(({ fits }) => fits(url))) return undefined;
  return `is that of a pooler in transaction mode, which tollgate cannot work through: ${useInstead(url)}`;
}

/** The advice for the URL of a pooler in transaction or statement mode. */
export function useInstead(url: URL): string {
  const service = services.find(({ fits }) => fits(url));
  const place = service && `: ${service.instead(url)}`;
  return `use the URL of the server itself, or of a pooler in session mode${place ?? ""}`;
}
