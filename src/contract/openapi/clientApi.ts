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
import { answerHeaders, errorAnswer, errorComponents, headerComponents } from "./answers.ts";
import type { ApiDescription } from "./openapi.ts";

const introduction = [
  "An OpenAI-compatible API over several providers, with prepaid accounts in roubles.",
  "Client libraries for OpenAI work with this address, extended by `/v1`, and a key.",
  "\n\nEvery answer has the header `x-request-id`. HEAD answers as GET does, without a body. OPTIONS answers 204 with the methods of the path in `allow`, without a key.",
  'Every error is `{"error":{"message","type"}}`. Calls of Anthropic\'s interface have the form `MessagesError`. An unknown path or method is a 404 with the message `not found`.',
  "Money is a decimal string of roubles. Prices are whole thousandths of a rouble per 1,000,000 tokens.",
  "\n\nThe operator sets the models, the limits and the fields that are accepted beside the listed ones.",
  "This document does not list them.",
].join(" ");

/** The API that clients call. */
export const clientApi: ApiDescription = {
  head: {
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
  },
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
  schemas: {
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
  },
  components: (schemas) => ({
    responses: errorComponents(schemas),
    headers: headerComponents(schemas),
  }),
  headers: answerHeaders,
  error: errorAnswer,
};
