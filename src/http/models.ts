import type { App } from "../app.ts";
import type { ModelConfig } from "../config/schema.ts";
import { modelNotFound } from "../contract/errors.ts";
import { findModel, mayUse } from "../gateway/catalog.ts";
import type { Caller } from "../auth/apiKey.ts";

/** The model list: only those that the key may use. */
export function listModels(app: App, caller: Caller): string {
  const { catalog, loadedAt } = app.gateway.current;
  const models = [...catalog.models.values()];
  const data = models
    .filter(({ config }) => mayUse(caller.models, config.id))
    .map(({ config }) => shown(config, loadedAt));
  return JSON.stringify({ object: "list", data });
}

/** One model. The id stands in the path as it is, or with its slashes as %2F. Throws ApiError 404. */
export function showModel(app: App, caller: Caller, pathId: string): string {
  const { catalog, loadedAt } = app.gateway.current;
  const { config } = findModel(catalog, caller.models, decoded(pathId));
  return JSON.stringify(shown(config, loadedAt));
}

function shown({ id, ownedBy, price }: ModelConfig, loadedAt: number) {
  return {
    id,
    object: "model",
    // Strict clients want it there; since when there is a model, no config says.
    created: Math.floor(loadedAt / 1000),
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
