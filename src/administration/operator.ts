import type { Config } from "../config/schema.ts";
import type { Actor, Store } from "../store/store.ts";

/** The context of each change: who makes it, and where. Commands and the console make one. */
export interface Operator {
  readonly config: Config;
  /** May be opened on first use, so that a change that fails earlier creates no database. */
  readonly store: Store;
  /** With the present time. Read it when the change is made. */
  readonly actor: Actor;
}
