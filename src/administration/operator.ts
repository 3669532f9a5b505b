import type { Config } from "../config/schema.ts";
import type { Actor, Store } from "../store/store.ts";

/** The context of each operation: who runs it, and where. Commands and the console make one. */
export interface Operator {
  readonly config: Config;
  /** May be opened on first use, so that a change that fails earlier creates no database. */
  readonly store: Store;
  /** With the present time. Read it when the change is made. */
  readonly actor: Actor;
  /** Called once if a change has to wait for reserved money, with the longest time that it waits. */
  readonly onWait?: (waitMs: number) => void;
}
