// Loaded into a gateway before its own code: SIGUSR2 collects garbage and writes a line with what is left.
import { heapStats } from "bun:jsc";

/** What the heap of the main thread holds. */
export interface HeapCounts {
  readonly objects: number;
  readonly bytes: number;
  /** The number of objects by type. */
  readonly types: Readonly<Record<string, number>>;
}

/** The line begins with this. The counts follow as JSON. */
export const HEAP_LINE = "heap: ";

process.on("SIGUSR2", () => {
  Bun.gc(true);
  const { objectCount, heapSize, objectTypeCounts } = heapStats();
  const counts: HeapCounts = { objects: objectCount, bytes: heapSize, types: objectTypeCounts };
  console.error(HEAP_LINE + JSON.stringify(counts));
});
