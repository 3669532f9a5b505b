import type { RequestStatus } from "../../contract/account/requestStatus.ts";
import type { RequestList } from "../../contract/operator/lists.ts";
import { requestDocument } from "../../contract/operator/request.ts";
import { isoTimeOrNull } from "../../lib/clock.ts";
import type { Operator } from "../operator.ts";

/** Amounts are nano-roubles, times milliseconds. `only`: estimated answers, or requests with a write-off. */
interface RequestSearch {
  readonly account: string | undefined;
  readonly key: string | undefined;
  readonly model: string | undefined;
  readonly provider: string | undefined;
  readonly status: RequestStatus | undefined;
  readonly since: number | undefined;
  readonly until: number | undefined;
  readonly cost_min: bigint | undefined;
  readonly cost_max: bigint | undefined;
  readonly only: "estimated" | "written_off" | undefined;
  readonly before: number | undefined;
  readonly limit: number;
}

/** The answer of GET /api/requests. Throws StoreError for an unknown account or key. */
export async function requestsOf(
  { store }: Operator,
  { cost_min, cost_max, only, before, limit, ...search }: RequestSearch,
): Promise<RequestList> {
  if (search.account !== undefined) await store.accounts.findOrThrow(search.account);
  if (search.key !== undefined) await store.keys.findOrThrow(search.key);
  const filter = {
    ...search,
    chargeMin: cost_min,
    chargeMax: cost_max,
    ...(only === "estimated" && { isEstimated: true as const }),
    ...(only === "written_off" && { isWrittenOff: true as const }),
  };
  const { rows, next, isCut } = await store.requests.list(filter, { before, limit });
  return {
    object: "list",
    data: rows.map(requestDocument),
    next: next === undefined ? null : String(next.row),
    searched_to: isoTimeOrNull(isCut ? (next?.at ?? null) : null),
  };
}
