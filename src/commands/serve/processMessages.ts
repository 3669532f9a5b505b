import type { News } from "../../app.ts";
import type { Config } from "../../config/schema.ts";
import type { SentBatch } from "../../store/open.ts";
import type { MetricValues } from "../../telemetry/metrics.ts";

/** The first message to a serving process. */
export interface StartProcess {
  readonly kind: "start";
  /** The config of the start. Some settings of a later config need a restart. */
  readonly startedWith: Config;
  /** The config in force, if a reload has replaced it. */
  readonly reloaded: Config | undefined;
  /** From 0, below `count`. */
  readonly number: number;
  readonly count: number;
}

/** What the main process sends to a serving process, by Bun's channel between processes. */
export type ToProcess =
  | StartProcess
  /** The outcome of the batch, in JSON. */
  | { readonly kind: "outcome"; readonly outcome: string }
  /** Another process needs money of these accounts. */
  | { readonly kind: "wanted"; readonly accounts: ReadonlySet<number> }
  /** The database took no batch of another process: the process should find out whether it takes one now. */
  | { readonly kind: "blocked" }
  | { readonly kind: "news"; readonly news: readonly News[] }
  | { readonly kind: "reload"; readonly config: Config }
  | { readonly kind: "readMetrics"; readonly id: number }
  | { readonly kind: "stop" }
  /** Ends the delay and the grace of the stop. */
  | { readonly kind: "cutNow" };

/** What a serving process sends to the main process. */
export type FromProcess =
  /** The process can take its first message. */
  | { readonly kind: "ready" }
  | { readonly kind: "listening"; readonly address: string }
  | { readonly kind: "batch"; readonly sent: SentBatch }
  | { readonly kind: "news"; readonly news: readonly News[] }
  | { readonly kind: "metrics"; readonly id: number; readonly values: MetricValues }
  /** The process cannot start. */
  | { readonly kind: "failed"; readonly message: string };
