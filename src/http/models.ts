import type { App } from "../app.ts";
import type { ModelConfig } from "../config/schema.ts";
import { modelNotFound } from "../contract/errors.ts";
import { findModel, mayUse } from "../gateway/catalog.ts";
import type { Caller } from "../auth/authenticate.ts";

/** The model list: only those that the key may use. */
export function listModels(app: App, caller: Caller): string {
  const models = [...app.gateway.current.catalog.models.values()];
  const data = models
    .filter(({ config }) => mayUse(caller.models, config.id))
    .map(({ config }) => shown(config));
  return JSON.stringify({ object: "list", data });
}

/** One model. The id stands in the path as it is, or with its slashes as %2F. Throws ApiError 404. */
export function showModel(app: App, caller: Caller, pathId: string): string {
  const { catalog } = app.gateway.current;
  return JSON.stringify(shown(findModel(catalog, caller.models, decoded(pathId)).config));
}

function shown({ id, ownedBy, price }: ModelConfig) {
  return {
    id,
    object: "model",
    owned_by: ownedBy,
    rub_input_per_1m: Number(price.input),
    rub_output_per_1m: Number(price.output),
  };
}

function decoded(pathId: string): string {
  try {
    return decodeURIComponent(pathId);
  } catch {
    throw modelNotFound();
  }
}
