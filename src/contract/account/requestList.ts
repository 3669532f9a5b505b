import { Type, type Static } from "@sinclair/typebox";
import { sha256 } from "../../lib/sha256.ts";
import { orNull } from "../answerFields.ts";
import { invalidRequest, type ApiError } from "../errors.ts";
import { modelField, oneOf } from "../requestFields.ts";
import type { Annotations } from "../validationMessage.ts";
import { Receipt } from "./receipt.ts";
import { requestStatuses, type RequestStatus } from "./requestStatus.ts";

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
      description: "`next` of the page before, with the same `model` and `status`.",
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

/** Which requests are listed. */
interface RequestFilter {
  readonly status: RequestStatus | undefined;
  readonly model: string | undefined;
  readonly limit: number;
}

export function requestFilter({ status, model, limit }: RequestsQuery): RequestFilter {
  return { status, model, limit: limit === undefined ? LIMIT_DEFAULT : Number(limit) };
}

/** Where a list goes on: the last listed request, and numbers of the account's charges. */
interface Position {
  readonly id: string;
  readonly newest: number;
  readonly leftFrom: number;
  readonly scannedTo: number;
}

const CURSOR = /^(\w{1,64})\.(\d{1,15})\.(\d{1,15})\.(\d{1,15})\.([0-9a-f]{8})$/;

/**
 * A position as text. It names a request and charges of the account only, and says nothing about other accounts. It
 * holds for one filter, because a position knows only of requests that match.
 */
export function cursorOf(position: Position, filter: RequestFilter): string {
  const { id, newest, leftFrom, scannedTo } = position;
  return Buffer.from([id, newest, leftFrom, scannedTo, filterTag(filter)].join(".")).toString(
    "base64url",
  );
}

/** The position of a cursor. Throws ApiError 400 if it is not one, or is one of another filter. */
export function positionOf(cursor: string, filter: RequestFilter): Position {
  const [text, id = "", newest, leftFrom, scannedTo, tag] =
    CURSOR.exec(Buffer.from(cursor, "base64url").toString("latin1")) ?? [];
  if (text === undefined) throw unknownCursor();
  if (tag !== filterTag(filter)) {
    throw invalidRequest("before needs the same model and status as the page before");
  }
  return { id, newest: Number(newest), leftFrom: Number(leftFrom), scannedTo: Number(scannedTo) };
}

/** 400: a text that is no cursor, or a cursor of a request that is folded or of another account. */
export function unknownCursor(): ApiError {
  return invalidRequest(
    "before must be `next` of an earlier page; without before the list begins anew",
  );
}

function filterTag({ status, model }: RequestFilter): string {
  return Buffer.from(sha256(`${status ?? ""}\n${model ?? ""}`))
    .toString("hex")
    .slice(0, 8);
}
