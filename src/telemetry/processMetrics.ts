import { collectDefaultMetrics, Gauge, type Registry } from "prom-client";

/**
 * What prom-client knows of the process, under its usual names, as far as it is true under Bun 1.4.5.
 * Left out: counts of handles and garbage collections, which stay 0, the data segment, in which Bun
 * reserves gigabytes that it does not use, V8's own heap spaces and Node's version, and the least and mean lag,
 * which are nonsense (9e9, NaN) where two scrapes follow each other at once.
 */
const TRUE_DEFAULTS = /^(?:process_(?!heap_)|nodejs_eventloop_lag_(?:seconds|max|p\d\d))/;

/**
 * Of the heap prom-client sets all figures where it is asked for the total, which is less than what is used of it under
 * Bun 1.4.5: the true ones are read here, under their usual names.
 */
const MEMORY_GAUGES = [
  ["nodejs_heap_size_used_bytes", "Heap memory in use, in bytes.", "heapUsed"],
  [
    "nodejs_external_memory_bytes",
    "Memory that heap objects use outside the heap, in bytes.",
    "external",
  ],
] as const;

/** Registers what is asked of the process at each scrape. */
export function collectProcessMetrics(registry: Registry): void {
  collectDefaultMetrics({ register: registry });
  for (const { name } of registry.getMetricsAsArray()) {
    if (!TRUE_DEFAULTS.test(name)) registry.removeSingleMetric(name);
  }
  for (const [name, help, part] of MEMORY_GAUGES) {
    const collect = function (this: Gauge): void {
      this.set(process.memoryUsage()[part]);
    };
    registry.registerMetric(new Gauge({ name, help, collect, registers: [] }));
  }
}
