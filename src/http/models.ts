import type { App } from "../app.ts";
import { modelNotFound } from "../contract/errors.ts";
import { errorAnswersInBothForms, inBothForms } from "../contract/errorSchemas.ts";
import {
  messagesModelForm,
  MessagesModel,
  MessagesModelList,
  messagesModelPage,
  MessagesModelsQuery,
} from "../contract/messages/messagesModels.ts";
import { Model, modelForm, ModelList } from "../contract/models.ts";
import { endpointsOf, findModel, mayUse } from "../gateway/catalog.ts";
import { shownPricesFor } from "../gateway/soldPrices.ts";
import type { ModelConfig } from "../config/schema.ts";
import { declaredRoute } from "./declaredRoute.ts";
import type { InFlightRequest } from "./authentication.ts";
import { idParameter } from "./requestPath.ts";

const IN_BOTH_FORMS =
  "With the header `anthropic-version` the answer has Anthropic's form, and lists the models that `/v1/messages` accepts.";

/** GET /v1/models. */
export const listModels = declaredRoute({
  endpoint: "models",
  detail: {
    operationId: "listModels",
    tags: ["models"],
    summary: "Lists the models that the key may use, with prices",
    description: IN_BOTH_FORMS,
    responses: { 200: { description: "The models." } },
  },
  query: MessagesModelsQuery,
  response: {
    200: inBothForms(ModelList, MessagesModelList),
    ...errorAnswersInBothForms(400, 401, 429, 502),
  },
});

/** GET /v1/models/{id}. */
export const getModel = declaredRoute({
  endpoint: "models",
  detail: {
    operationId: "getModel",
    tags: ["models"],
    summary: "Shows one model",
    description: IN_BOTH_FORMS,
    responses: { 200: { description: "The model." } },
  },
  ...idParameter("The id of a model. A slash in it may be written as `/` or as `%2F`."),
  response: {
    200: inBothForms(Model, MessagesModel),
    ...errorAnswersInBothForms(400, 401, 404, 429, 502),
  },
});

/** The models that the key may use, in the form that the client reads. Throws ApiError 400. */
export function modelsFor(
  app: App,
  scope: InFlightRequest,
  query: MessagesModelsQuery,
): ModelList | MessagesModelList {
  const { catalog, loadedAt } = app.gateway.current;
  const { caller, log } = scope;
  const models = [...catalog.models.values()]
    .map(({ config }) => config)
    .filter(({ id }) => mayUse(caller.models, id));
  if (log.form === "anthropic") return messagesModelPage(models.filter(hasMessages), query);
  const data = models.map((model) =>
    modelForm(model, shownPricesFor(scope, model), endpointsOf(model), loadedAt),
  );
  return { object: "list", data };
}

/** One model. `pathId` is its percent-encoded id. Throws ApiError 404. */
export function modelFor(app: App, scope: InFlightRequest, pathId: string): Model | MessagesModel {
  const { catalog, loadedAt } = app.gateway.current;
  const { caller, log } = scope;
  const { config } = findModel(catalog, caller.models, decoded(pathId));
  if (log.form !== "anthropic")
    return modelForm(config, shownPricesFor(scope, config), endpointsOf(config), loadedAt);
  if (!hasMessages(config)) throw modelNotFound();
  return messagesModelForm(config);
}

function hasMessages(model: ModelConfig): boolean {
  return endpointsOf(model).includes("messages");
}

function decoded(pathId: string): string {
  try {
    return decodeURIComponent(pathId);
  } catch {
    throw modelNotFound();
  }
}
