import type { TObject, TSchema } from "@sinclair/typebox";
import { version } from "../../lib/version.ts";
import { Account } from "../account/account.ts";
import { Receipt } from "../account/receipt.ts";
import { RequestList } from "../account/requestList.ts";
import { UsageReport } from "../account/usageReport.ts";
import { VoucherRedemption } from "../account/voucherRedemption.ts";
import { Roubles } from "../answerFields.ts";
import { ChatAnswer, ChatChunk, ChatUsage } from "../chat/chatAnswerSchemas.ts";
import { ChatRequestBody, ContentPart, RequestMessage } from "../chat/chatRequestBody.ts";
import {
  AuthError,
  BillingError,
  ErrorBody,
  InvalidRequestError,
  ProviderError,
  RateLimitError,
} from "../errorSchemas.ts";
import { EmbeddingsAnswer, EmbeddingsRequestBody } from "../embeddings.ts";
import { Health, HealthProblem } from "../health.ts";
import { MessagesAnswer, MessagesError, TokenCount } from "../messages/messagesAnswer.ts";
import { MessagesModel, MessagesModelList } from "../messages/messagesModels.ts";
import { CountTokensRequestBody, MessagesRequestBody } from "../messages/messagesRequest.ts";
import { Model, ModelList } from "../models.ts";
import { ResponsesAnswer, ResponsesRequestBody } from "../responses.ts";
import { answerHeaders, errorComponents, errorAnswer, headerComponents } from "./answers.ts";
import { createSchemaWriter, type PlainSchema, type SchemaWriter } from "./plainSchema.ts";

/** Parts of an operation of the document that a route declares beside its schemas. */
export interface RouteDetail {
  /** True: not in the document. */
  readonly hide?: boolean;
  readonly operationId?: string;
  readonly security?: readonly unknown[];
  readonly requestBody?: { readonly description?: string };
  readonly responses?: Readonly<Record<string, Readonly<Record<string, unknown>>>>;
}

/** A route of the server with its schemas. Its path ends in `*` if its last parameter may contain slashes. */
export interface DeclaredRoute {
  readonly method: string;
  readonly path: string;
  readonly hooks: {
    readonly detail: RouteDetail;
    readonly params?: TObject;
    readonly query?: TObject;
    readonly body?: TSchema;
    readonly response: Readonly<Record<string, TSchema>>;
  };
}

/** The schemas that are components of the document. All others are written where they are used. */
const namedSchemas = {
  ChatRequest: ChatRequestBody,
  ChatMessage: RequestMessage,
  ContentPart,
  ChatAnswer,
  ChatChunk,
  ChatUsage,
  ResponsesRequest: ResponsesRequestBody,
  ResponsesAnswer,
  MessagesRequest: MessagesRequestBody,
  MessagesAnswer,
  CountTokensRequest: CountTokensRequestBody,
  TokenCount,
  EmbeddingsRequest: EmbeddingsRequestBody,
  EmbeddingsAnswer,
  Model,
  ModelList,
  MessagesModel,
  MessagesModelList,
  Health,
  HealthProblem,
  Account,
  UsageReport,
  Receipt,
  VoucherRedemption,
  RequestList,
  ErrorBody,
  InvalidRequestError,
  AuthError,
  BillingError,
  RateLimitError,
  ProviderError,
  MessagesError,
  Roubles,
};

const introduction = [
  "An OpenAI-compatible API over several providers, with prepaid accounts in roubles.",
  "Client libraries for OpenAI work with this address, extended by `/v1`, and a key.",
  "\n\nEvery answer has the header `x-request-id`. HEAD answers as GET does, without a body. OPTIONS answers 204 with the methods of the path in `allow`, without a key.",
  'Every error is `{"error":{"message","type"}}`. Calls of Anthropic\'s interface have the form `MessagesError`. An unknown path or method is a 404 with the message `not found`.',
  "Money is a decimal string of roubles. Prices are whole thousandths of a rouble per 1,000,000 tokens.",
  "\n\nThe operator sets the models, the limits and the fields that are accepted beside the listed ones.",
  "This document does not list them.",
].join(" ");

/**
 * The description of the API in JSON. It is derived from the schemas that the routes declare, and does not depend on the
 * config. It uses OpenAPI 3.1 (https://spec.openapis.org/oas/v3.1.1.html), because TypeBox's schemas are valid there.
 */
export function openapiText(routes: readonly DeclaredRoute[]): string {
  const schemas = createSchemaWriter(namedSchemas);
  return JSON.stringify({
    openapi: "3.1.1",
    info: {
      title: "Tollgate",
      summary: "An LLM gateway with exact prepaid billing",
      description: introduction,
      license: { name: "MIT", identifier: "MIT" },
      version: version(),
    },
    servers: [{ url: "/", description: "The gateway that sent this document" }],
    security: [{ bearer: [] }, { apiKey: [] }],
    tags: [
      { name: "completions", description: "Answers of models" },
      { name: "models", description: "Models and their prices" },
      {
        name: "account",
        description: "Balance, usage, requests and vouchers of the key's account",
      },
      { name: "service", description: "The gateway itself. No key is needed" },
    ],
    paths: paths(routes, schemas),
    components: {
      securitySchemes: {
        bearer: {
          type: "http",
          scheme: "bearer",
          description: "A key of this gateway, `sk-tg-...`. A key in the URL is never accepted.",
        },
        apiKey: {
          type: "apiKey",
          in: "header",
          name: "x-api-key",
          description: "The same key, as Anthropic's clients send it.",
        },
      },
      schemas: schemas.components(),
      responses: errorComponents(schemas),
      headers: headerComponents(schemas),
    },
  });
}

/** All paths with their operations. The introduction describes HEAD. */
function paths(
  routes: readonly DeclaredRoute[],
  schemas: SchemaWriter,
): Readonly<Record<string, object>> {
  const paths: Record<string, Record<string, object>> = {};
  for (const route of routes.filter(({ hooks }) => !hooks.detail.hide)) {
    const methods = (paths[documentedPath(route)] ??= {});
    methods[route.method.toLowerCase()] = operation(route, schemas);
  }
  return paths;
}

function documentedPath({ path, hooks }: DeclaredRoute): string {
  const [lastParameter = "*"] = Object.keys(hooks.params?.properties ?? {}).slice(-1);
  return path.replace(/\*$/, `{${lastParameter}}`).replaceAll(/:(\w+)/g, "{$1}");
}

function operation({ hooks }: DeclaredRoute, schemas: SchemaWriter): object {
  const { requestBody, responses = {}, ...detail } = hooks.detail;
  const parameters = [
    ...parametersOf("path", hooks.params, schemas),
    ...parametersOf("query", hooks.query, schemas),
  ];
  const headers = answerHeaders(detail.security !== undefined);
  return {
    ...detail,
    ...(parameters.length > 0 ? { parameters } : {}),
    ...(hooks.body
      ? { requestBody: { required: true, ...requestBody, content: json(schemas.show(hooks.body)) } }
      : {}),
    responses: Object.fromEntries(
      Object.entries(hooks.response).map(([status, schema]) => {
        const described = responses[status];
        const answer = {
          ...described,
          headers: { ...headers, ...(described?.["headers"] as object | undefined) },
          content: {
            ...json(schemas.show(schema)),
            ...(described?.["content"] as object | undefined),
          },
        };
        return [status, errorAnswer(status, schema, schemas) ?? answer];
      }),
    ),
  };
}

function parametersOf(
  location: "path" | "query",
  declared: TObject | undefined,
  schemas: SchemaWriter,
): readonly object[] {
  return Object.entries(declared?.properties ?? {}).map(([name, property]) => {
    const { description, ...schema } = schemas.show(property);
    const parameter = { name, in: location, description, schema };
    return location === "path" ? Object.assign(parameter, { required: true }) : parameter;
  });
}

function json(schema: PlainSchema): Readonly<Record<string, object>> {
  return { "application/json": { schema } };
}
