/** The store's Workers. The build makes each one an entry point of the executable. */
export const storeWorkers = ["writer/writer", "audit/auditWorker", "backup/copyWorker"] as const;

/** In the executable the path of a Worker is relative to the main entry point. */
export function startWorker(name: (typeof storeWorkers)[number]): Worker {
  return new Worker(
    Bun.isStandaloneExecutable
      ? `./store/sqlite/${name}.ts`
      : new URL(`./${name}.ts`, import.meta.url).href,
  );
}
