import type { ModelConfig } from "./models.ts";
import type { PlanConfig } from "./plans.ts";
import type { ProviderConfig } from "./providers.ts";
import type { Settings } from "./settings.ts";

export type { Listen } from "./address.ts";
export type { PostgresDatabase, ServerPlace, SqliteDatabase } from "./database.ts";
export type { ChatApi, ModelConfig, ModelKind, RouteConfig } from "./models.ts";
export type { Network } from "./network.ts";
export type { PlanConfig } from "./plans.ts";
export type { MailServer, NotifyConfig } from "./notify.ts";
export type { Price } from "../contract/figures.ts";
export type { ProviderConfig, ProviderKind } from "./providers.ts";
export type { TlsConfig } from "./tls.ts";

/** The checked config with all defaults. Paths are absolute. Numbers have the unit in their name. */
export interface Config extends Settings {
  /** The absolute path of the config file. */
  readonly file: string;
  readonly providers: readonly ProviderConfig[];
  readonly models: readonly ModelConfig[];
  readonly plans: readonly PlanConfig[];
}
