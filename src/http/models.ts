import type { App } from "../app.ts";
import type { Caller } from "../auth/knownKeys.ts";
import { modelNotFound } from "../contract/errors.ts";
import { errorAnswers } from "../contract/errorSchemas.ts";
import { Model, modelForm, ModelList } from "../contract/models.ts";
import { findModel, mayUse } from "../gateway/catalog.ts";
import { declaredRoute } from "./declaredRoute.ts";
import { idParameter } from "./requestPath.ts";

/** GET /v1/models. */
export const listModels = declaredRoute({
  detail: {
    operationId: "listModels",
    tags: ["models"],
    summary: "Lists the models that the key may use, with prices",
    responses: { 200: { description: "The models." } },
  },
  response: { 200: ModelList, ...errorAnswers(400, 401, 429, 502) },
});

/** GET /v1/models/{id}. */
export const getModel = declaredRoute({
  detail: {
    operationId: "getModel",
    tags: ["models"],
    summary: "Shows one model",
    responses: { 200: { description: "The model." } },
  },
  ...idParameter("The id of a model. A slash in it may be written as `/` or as `%2F`."),
  response: { 200: Model, ...errorAnswers(400, 401, 404, 429, 502) },
});

/** The models that the key may use. */
export function modelsFor(app: App, caller: Caller): ModelList {
  const { catalog, loadedAt } = app.gateway.current;
  const models = [...catalog.models.values()];
  const data = models
    .filter(({ config }) => mayUse(caller.models, config.id))
    .map(({ config }) => modelForm(config, loadedAt));
  return { object: "list", data };
}

/** One model. `pathId` is its percent-encoded id. Throws ApiError 404. */
export function modelFor(app: App, caller: Caller, pathId: string): Model {
  const { catalog, loadedAt } = app.gateway.current;
  const { config } = findModel(catalog, caller.models, decoded(pathId));
  return modelForm(config, loadedAt);
}

function decoded(pathId: string): string {
  try {
    return decodeURIComponent(pathId);
  } catch {
    throw modelNotFound();
  }
}
