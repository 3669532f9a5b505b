import { Type, type Static } from "@sinclair/typebox";
import { orNull } from "../answerFields.ts";
import { invalidRequest, type ApiError } from "../errors.ts";
import { modelField, oneOf } from "../requestFields.ts";
import type { Annotations } from "../validationMessage.ts";
import { Receipt } from "./receipt.ts";
import { requestStatuses } from "./requestStatus.ts";

const LIMIT_DEFAULT = 20;
const LIMIT_MAX = 100;
const CURSOR_CHARACTERS_MAX = 256;

/** The query of GET /v1/requests. */
export type RequestsQuery = Static<typeof RequestsQuery>;
export const RequestsQuery = Type.Object({
  limit: Type.Optional(
    Type.String({
      description: `The most requests of the answer, from 1 to ${LIMIT_MAX}. The default is ${LIMIT_DEFAULT}.`,
      pattern: String.raw`^([1-9]\d?|100)$`,
      patternMessage: `be a whole number from 1 to ${LIMIT_MAX}`,
      examples: ["50"],
    } satisfies Annotations & Record<string, unknown>),
  ),
  before: Type.Optional(
    Type.String({
      description: "`next` of the page before.",
      maxLength: CURSOR_CHARACTERS_MAX,
    }),
  ),
  model: Type.Optional({ ...modelField, description: "Only requests of this model." }),
  status: Type.Optional(oneOf(requestStatuses, { description: "Only requests with this status." })),
});

/** The answer of GET /v1/requests. */
export type RequestList = Static<typeof RequestList>;
export const RequestList = Type.Object({
  object: Type.Literal("list"),
  data: Type.Array(Receipt, { description: "The one recorded last first." }),
  next: orNull(
    Type.String({ description: "The value of `before` for the next page. Null on the last page." }),
  ),
});

export function limitOf({ limit }: RequestsQuery): number {
  return limit === undefined ? LIMIT_DEFAULT : Number(limit);
}

/** The cursor of a list is the id of the last request that a page looked at. */
export function isCursor(text: string): boolean {
  return /^\w{1,64}$/.test(text);
}

/** 400: a text that is no cursor, or a cursor of a request that is folded or of another account. */
export function unknownCursor(): ApiError {
  return invalidRequest(
    "before must be `next` of an earlier page; without before the list begins anew",
  );
}
