import type { Operator } from "../../../administration/operator.ts";
import {
  cost,
  InvalidValue,
  keyId,
  pastTime,
  readField,
  readOptionalField,
} from "../../../administration/values.ts";
import { Type, type Static } from "@sinclair/typebox";
import { requestStatuses } from "../../../contract/account/requestStatus.ts";
import type { RequestList } from "../../../contract/operator/lists.ts";
import {
  requestDetailDocument,
  requestDocument,
  type RequestDetailDocument,
} from "../../../contract/operator/request.ts";
import { oneOf } from "../../../contract/requestFields.ts";
import { isoTimeOrNull } from "../../../lib/clock.ts";
import { NotFoundError } from "../../../store/store.ts";

const text = Type.Optional(Type.String({ maxLength: 512 }));

/** The query of GET /api/requests. `only`: estimated answers, or requests with a write-off. */
export type RequestsQuery = Static<typeof RequestsQuery>;
export const RequestsQuery = Type.Object({
  account: text,
  key: text,
  model: text,
  provider: text,
  status: Type.Optional(oneOf(requestStatuses)),
  since: text,
  until: text,
  cost_min: text,
  cost_max: text,
  only: Type.Optional(oneOf(["estimated", "written_off"])),
  before: text,
  limit: text,
});

/** The answer of GET /api/requests. Throws InvalidValue, and StoreError for an unknown account or key. */
export async function requestsOf(
  { store, actor }: Operator,
  query: RequestsQuery,
  page: { readonly before: number | undefined; readonly limit: number },
): Promise<RequestList> {
  const time = (at: string): number => pastTime(at, actor.at);
  const since = readOptionalField("since", query.since, time);
  const until = readOptionalField("until", query.until, time);
  if (since !== undefined && until !== undefined && since >= until)
    throw new InvalidValue("The start must be earlier than the end.", { field: "since" });
  if (query.account !== undefined) await store.accounts.findOrThrow(query.account);
  if (query.key !== undefined) await store.keys.findOrThrow(readField("key", query.key, keyId));
  const { rows, next, searchedTo } = await store.reports.requests({
    account: query.account,
    key: query.key,
    model: query.model,
    provider: query.provider,
    status: query.status,
    since,
    until,
    chargeMin: readOptionalField("cost_min", query.cost_min, cost),
    chargeMax: readOptionalField("cost_max", query.cost_max, cost),
    ...(query.only === "estimated" && { isEstimated: true as const }),
    ...(query.only === "written_off" && { isWrittenOff: true as const }),
    ...page,
  });
  return {
    object: "list",
    data: rows.map(requestDocument),
    next: next === undefined ? null : String(next),
    searched_to: isoTimeOrNull(searchedTo ?? null),
  };
}

/** The answer of GET /api/requests/ID. Throws StoreError if there is no such request. */
export async function requestOf({ store }: Operator, id: string): Promise<RequestDetailDocument> {
  const request = await store.requests.find(id);
  if (request === undefined)
    throw new NotFoundError(
      `there is no request ${JSON.stringify(id)}, or it is older than [database] keep_requests`,
    );
  return requestDetailDocument(request, await store.requests.attempts(id));
}
