/** The files of the store's Workers. Each is an entry point of the executable too, or it would lack it. */
export const storeWorkers = [
  "writer/writer",
  "audit/integrityWorker",
  "backup/copyWorker",
] as const;

/** In the executable a Worker is named by its path from the entry, and not from here. */
export function startWorker(name: (typeof storeWorkers)[number]): Worker {
  return new Worker(
    Bun.isStandaloneExecutable
      ? `./store/${name}.ts`
      : new URL(`./${name}.ts`, import.meta.url).href,
  );
}
