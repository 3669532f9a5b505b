import { getAccount, getReceipt, getUsage } from "./accountPaths.ts";
import { commonHeaders } from "./answerHeaders.ts";
import { createChatCompletion, createResponse } from "./completionPaths.ts";
import { errorsOf } from "./errorAnswers.ts";
import { answerToKey, jsonContent, pathId } from "./operationParts.ts";

/** Every path of the API with its operations. HEAD answers as GET everywhere, which the introduction says once. */
export function paths(): Readonly<Record<string, object>> {
  return {
    "/v1/chat/completions": { post: createChatCompletion() },
    "/v1/responses": { post: createResponse() },
    "/v1/models": { get: listModels() },
    "/v1/models/{id}": { get: getModel() },
    "/v1/account": { get: getAccount() },
    "/v1/usage": { get: getUsage() },
    "/v1/requests/{id}": { get: getReceipt() },
    "/openapi.json": { get: getDescription() },
    "/healthz": { get: getHealth() },
  };
}

function listModels(): object {
  return {
    operationId: "listModels",
    tags: ["models"],
    summary: "Lists the models that the key may use, with prices",
    responses: { 200: answerToKey("ModelList", "The models."), ...errorsOf(400, 401, 429, 502) },
  };
}

function getModel(): object {
  return {
    operationId: "getModel",
    tags: ["models"],
    summary: "Shows one model",
    parameters: [pathId("The id of a model. Its slashes may stand as they are, or as `%2F`.")],
    responses: { 200: answerToKey("Model", "The model."), ...errorsOf(400, 401, 404, 429, 502) },
  };
}

function getDescription(): object {
  return {
    operationId: "getDescription",
    tags: ["service"],
    summary: "This description",
    security: [],
    responses: {
      200: {
        description: "An OpenAPI document. It is the same whatever the gateway's config is.",
        headers: commonHeaders,
        content: { "application/json": { schema: { type: "object" } } },
      },
      ...errorsOf(400),
    },
  };
}

function getHealth(): object {
  return {
    operationId: "getHealth",
    tags: ["service"],
    summary: "Says whether the gateway serves",
    security: [],
    responses: {
      200: { description: "It serves.", headers: commonHeaders, content: jsonContent("Health") },
      503: {
        description: "It does not: send no requests.",
        headers: commonHeaders,
        content: jsonContent("HealthProblem"),
      },
      ...errorsOf(400),
    },
  };
}
