import type { ModelConfig, ProviderConfig, RouteConfig } from "../../config/schema.ts";
import type { ReasoningEffort } from "../../contract/chat/chatRequestBody.ts";
import type { ChatInterface, NameRule } from "../provider.ts";
import { familyOf } from "./modelFamilies.ts";

/** How a chat is written for one route. */
export interface Dialect {
  /** One system message, then user and assistant in turns: `inStrictOrder`. */
  readonly hasStrictOrder: boolean;
  /** A result of a tool may have pictures. */
  readonly takesPicturesInResults: boolean;
  /** Undefined: names are sent as they are. */
  readonly toolNames: NameRule | undefined;
  /** Parameters of tools are filled in: `parametersOf`. */
  readonly fillsParameters: boolean;
  /** The only form of the ids of calls; undefined: any. */
  readonly callIds: RegExp | undefined;
  /** The efforts that the model takes. Undefined: the client's own is sent. */
  readonly efforts: readonly ReasoningEffort[] | undefined;
  /** Fields that the model refuses and that only tune an answer. */
  readonly refusedFields: readonly string[];
  /** The gateway applies the stop sequences. */
  readonly refusesStop: boolean;
}

/** The route of a chat, and the interface that the chat came in. */
export interface DialectSource {
  readonly provider: Pick<ProviderConfig, "kind" | "messageOrder">;
  readonly route: Pick<RouteConfig, "model">;
  readonly model: Pick<ModelConfig, "reasoningEffort">;
  /** The provider's interface that gets the chat. */
  readonly chat: ChatInterface;
  /** The request came in another interface, so its client did not write it for this model. */
  readonly isRewritten: boolean;
  /** The provider has the interface of the request: it gets the client's own text. */
  readonly isNative: boolean;
}

/** The dialect of a route: from the provider's interface, its name for the model, and keys of the config. */
export function dialectOf(source: DialectSource): Dialect {
  const { provider, route, model, chat, isRewritten, isNative } = source;
  const { hasManyServers, picturesInResults, toolNames } = chat.takes;
  const isOpenai = provider.kind === "openai";
  const isStrict = isOpenai && provider.messageOrder === "strict";
  const adapts = hasManyServers && !isNative;
  // A client's own chat is written for its model.
  const family = isStrict || isRewritten ? familyOf(route.model) : undefined;
  const ofModel = isRewritten ? family : undefined;
  // Clients of other interfaces send an effort to every model, and many models of compatible servers answer 400.
  const unknown = model.reasoningEffort ? undefined : [];
  return {
    hasStrictOrder: isStrict || adapts,
    takesPicturesInResults: !isStrict && (isNative || picturesInResults),
    toolNames: isNative ? undefined : toolNames,
    fillsParameters: adapts,
    callIds: family?.callIds,
    efforts: isOpenai && ofModel ? (ofModel.efforts ?? unknown) : undefined,
    refusedFields: ofModel?.refusedFields ?? [],
    refusesStop: ofModel?.refusesStop ?? false,
  };
}

/**
 * Whether the chat interface of the model refuses a request with tools and this effort, which its responses interface takes:
 * OpenAI's models from gpt-5.4 on.
 */
export function needsResponses(
  model: string,
  { hasTools, effort }: { readonly hasTools: boolean; readonly effort: unknown },
): boolean {
  if (!hasTools || effort === "none") return false;
  const { refusesToolsWithEffort: refuses } = familyOf(model);
  if (refuses === undefined) return false;
  return refuses === "always" || (effort !== undefined && effort !== null);
}
