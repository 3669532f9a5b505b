import { cachePays } from "../../billing/cost.ts";
import { estimateTokens } from "../../billing/estimate.ts";
import type { ChatApi, ModelConfig, ProviderConfig, RouteConfig } from "../../config/schema.ts";
import type { Endpoint } from "../../contract/account/requestStatus.ts";
import type { ChatFigures } from "../../contract/chat/chatRequest.ts";
import { adaptChat, changedToolNames, type Chat } from "../../providers/dialect/adaptChat.ts";
import { dialectOf, needsResponses, type Dialect } from "../../providers/dialect/dialect.ts";
import type {
  ChatCall,
  ChatInterface,
  ChatOptions,
  EncodedRequest,
} from "../../providers/provider.ts";
import { chatInterfaceOf } from "../../providers/registry.ts";
import type { Candidate } from "../../routing/candidates.ts";
import { serviceOf } from "../interfaces.ts";

/** What decides how a chat is written for a route. Plain data: a message to a Worker can have it. */
export interface ChatTarget {
  /** The provider's interface that gets the chat. */
  readonly api: ChatApi;
  readonly provider: Pick<ProviderConfig, "kind" | "messageOrder"> & ChatOptions;
  readonly route: Pick<RouteConfig, "model">;
  readonly model: Pick<ModelConfig, "reasoningEffort">;
  /** The request came in another interface. */
  readonly isRewritten: boolean;
  /** The provider has the chat interface and gets the client's own text. */
  readonly isNative: boolean;
  readonly cachesPrompt: boolean;
  readonly toolCallsMax: number | undefined;
}

/** The bound to send, and the tokens that the hold pays for. */
export type ChoiceBounds = Pick<ChatCall, "outputTokensBound" | "outputTokensMax">;

/** A chat that is written for a route. */
export interface EncodedChat {
  readonly encoded: EncodedRequest;
  /** The changed names of tools, each with the client's own name. */
  readonly toolNames: ReadonlyMap<string, string>;
}

export function chatTargetOf(
  endpoint: Endpoint,
  request: ChatFigures,
  candidate: Candidate,
  toolCallsMax?: number,
): ChatTarget {
  const { route, model } = candidate;
  const { config } = candidate.provider;
  const isEither = config.kind === "openai" && route.api === "chat" && route.responses;
  const api = isEither && needsResponses(route.model, request) ? "responses" : route.api;
  const { kind, messageOrder, maxTokensField, streamUsage, dropMessageFields, dropFields } = config;
  return {
    api,
    provider: { kind, messageOrder, maxTokensField, streamUsage, dropMessageFields, dropFields },
    route: { model: route.model },
    model: { reasoningEffort: model.reasoningEffort },
    isRewritten: endpoint !== "chat",
    isNative: api === route.api && serviceOf(endpoint, candidate) === "native",
    cachesPrompt: cachesPrompt(config, model, request),
    toolCallsMax,
  };
}

export function interfaceFor({ provider, api }: ChatTarget): ChatInterface {
  return chatInterfaceOf(provider.kind, api);
}

export function dialectFor(target: ChatTarget): Dialect {
  return dialectOf({ ...target, chat: interfaceFor(target) });
}

/** Writes a chat for a route. Throws UnsupportedRequestError. */
export function encodeChat(chat: Chat, target: ChatTarget, bounds: ChoiceBounds): EncodedChat {
  const dialect = dialectFor(target);
  const encoded = interfaceFor(target).encode({
    ...adaptChat(chat, dialect),
    model: target.route.model,
    ...bounds,
    options: target.provider,
    cachesPrompt: target.cachesPrompt,
    toolCallsMax: target.toolCallsMax,
  });
  return { encoded, toolNames: changedToolNames(chat.request, dialect) };
}

/** No model of Anthropic caches a shorter prompt: https://platform.claude.com/docs/en/build-with-claude/prompt-caching */
const CACHED_TOKENS_MIN = 1024;

function cachesPrompt(
  provider: ProviderConfig,
  model: ModelConfig,
  { promptSize }: ChatFigures,
): boolean {
  const tokens = estimateTokens(promptSize.textBytes, promptSize.nonTextParts);
  return (
    provider.automaticCache &&
    tokens >= CACHED_TOKENS_MIN &&
    cachePays(model.schedule[0].prices.standard[0].price)
  );
}
