import { Type, type Static } from "@sinclair/typebox";
import { orNull, time, tokens } from "../answerFields.ts";
import { invalidRequest } from "../errors.ts";

const PAGE_MODELS_DEFAULT = 20;
const PAGE_MODELS_MAX = 1000;

/** The query of GET /v1/models in Anthropic's form. In OpenAI's form the list has no pages, and all of it is ignored. */
export type MessagesModelsQuery = Static<typeof MessagesModelsQuery>;
export const MessagesModelsQuery = Type.Object(
  {
    limit: parameter(
      `The number of models in a page, from 1 to ${PAGE_MODELS_MAX}. The default is ${PAGE_MODELS_DEFAULT}.`,
    ),
    after_id: parameter("The id of a model. The page begins behind it."),
    before_id: parameter("The id of a model. The page ends before it."),
  },
  // Clients add others, such as `beta=true`.
  { additionalProperties: true },
);

/**
 * The answer of GET /v1/models/{id} in Anthropic's form
 * (https://platform.claude.com/docs/en/api/models/retrieve).
 */
export type MessagesModel = Static<typeof MessagesModel>;
export const MessagesModel = Type.Object(
  {
    type: Type.Literal("model"),
    id: Type.String({ description: "The `model` of a request. It may contain slashes." }),
    display_name: Type.String({ description: "The id." }),
    created_at: time(),
    max_input_tokens: tokens("The context window: the most tokens of prompt and answer together."),
    max_tokens: tokens("The highest `max_tokens` of a request."),
    capabilities: Type.Null({
      description:
        "Always null: the gateway does not know what the models of its providers can do.",
    }),
  },
  { description: "A model in Anthropic's form, for requests with the header `anthropic-version`." },
);

/** The answer of GET /v1/models in Anthropic's form. */
export type MessagesModelList = Static<typeof MessagesModelList>;
export const MessagesModelList = Type.Object(
  {
    data: Type.Array(MessagesModel),
    has_more: Type.Boolean({
      description: "Whether more models follow in the direction of the query.",
    }),
    first_id: orNull(Type.String({ description: "The value of `before_id` for the page before." })),
    last_id: orNull(Type.String({ description: "The value of `after_id` for the next page." })),
  },
  { description: "One page of models in Anthropic's form." },
);

interface ShownModel {
  readonly id: string;
  readonly contextTokens: number;
  readonly maxOutputTokens: number;
}

/** Anthropic's value for a model whose release date is not known. */
const UNKNOWN_DATE = "1970-01-01T00:00:00Z";

/** A model as Anthropic's clients see it. */
export function messagesModelForm(model: ShownModel): MessagesModel {
  return {
    type: "model",
    id: model.id,
    display_name: model.id,
    created_at: UNKNOWN_DATE,
    max_input_tokens: model.contextTokens,
    max_tokens: model.maxOutputTokens,
    capabilities: null,
  };
}

/** The page of `models` that the query asks for. Throws ApiError 400. */
export function messagesModelPage(
  models: readonly ShownModel[],
  query: MessagesModelsQuery,
): MessagesModelList {
  const limit = limitOf(query);
  const after = positionOf("after_id", models, query);
  const before = positionOf("before_id", models, query);
  if (after !== undefined && before !== undefined) {
    throw invalidRequest("after_id and before_id cannot be used together");
  }
  const start = before === undefined ? (after ?? -1) + 1 : Math.max(0, before - limit);
  const end = before ?? start + limit;
  const page = models.slice(start, end);
  return {
    data: page.map(messagesModelForm),
    has_more: before === undefined ? end < models.length : start > 0,
    first_id: page[0]?.id ?? null,
    last_id: page.at(-1)?.id ?? null,
  };
}

function limitOf({ limit }: MessagesModelsQuery): number {
  if (limit === undefined) return PAGE_MODELS_DEFAULT;
  const count = /^\d{1,4}$/.test(limit) ? Number(limit) : 0;
  if (count >= 1 && count <= PAGE_MODELS_MAX) return count;
  throw invalidRequest(`limit must be a whole number from 1 to ${PAGE_MODELS_MAX}`);
}

function positionOf(
  name: "after_id" | "before_id",
  models: readonly ShownModel[],
  query: MessagesModelsQuery,
): number | undefined {
  const id = query[name];
  if (id === undefined) return undefined;
  const position = models.findIndex((model) => model.id === id);
  if (position >= 0) return position;
  throw invalidRequest(`${name} must be the id of a listed model`);
}

function parameter(description: string) {
  const forWhom = "Only with the header `anthropic-version`.";
  return Type.Optional(Type.String({ description: `${description} ${forWhom}` }));
}
