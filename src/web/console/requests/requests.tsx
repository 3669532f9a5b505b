import type { RequestList } from "../../../contract/operator/lists.ts";
import { requestStatuses } from "../../../contract/account/requestStatus.ts";
import { useFilters } from "../../components/filters.tsx";
import { ViewHead } from "../../components/frame.tsx";
import { ListView } from "../../components/list.tsx";
import { EmptyState } from "../../components/states.tsx";
import { Status } from "../../components/values.tsx";
import type { Column } from "../../components/table.tsx";
import { words as shared } from "../../language.ts";
import { createList } from "../../list.ts";
import { createResource, useResource } from "../../resource.ts";
import { hrefOf, type PlaceQuery } from "../../router.ts";
import { amountText } from "../amounts.ts";
import { call, type Input } from "../call.ts";
import { followStore } from "../live.ts";
import { text } from "../text.ts";

type Row = RequestList["data"][number];

const words = text.requests;

/** The most accounts that are suggested. */
const SUGGESTED_MAX = 500;

/** All requests, with filters. */
export function Requests() {
  const { accounts, models, providers } = useSuggestions();
  const filters = useFilters([
    { name: "account", label: words.account, kind: "text", suggestions: accounts },
    { name: "key", label: words.key, kind: "text" },
    { name: "model", label: words.model, kind: "text", suggestions: models },
    { name: "provider", label: words.provider, kind: "text", suggestions: providers },
    { name: "status", label: words.status, kind: "choice", options: statuses },
    { name: "only", label: words.only, kind: "choice", options: kinds },
    { name: "cost_min", label: words.costMin, kind: "text", inputMode: "decimal" },
    { name: "cost_max", label: words.costMax, kind: "text", inputMode: "decimal" },
    { name: "since", until: "until", label: words.period, kind: "period" },
  ]);
  const list = useResource(() =>
    createRequestList(() => {
      const { cost_min = "", cost_max = "", ...values } = filters.values();
      return { ...values, cost_min: amountText(cost_min), cost_max: amountText(cost_max) };
    }),
  );
  return (
    <>
      <ViewHead title={text.views.requests} text={words.intro} />
      <ListView {...requestTable} list={list} filters={filters} />
    </>
  );
}

/** The last requests of one account or key, with a link to all of them. */
export function RequestsOf({
  title,
  of,
  hidden,
}: {
  title: string;
  of: PlaceQuery;
  /** Columns that have the same value in each row. */
  hidden: readonly string[];
}) {
  const list = useResource(() => createRequestList(() => of), JSON.stringify(of));
  return (
    <ListView
      {...requestTable}
      columns={columns.filter(({ id }) => !hidden.includes(id))}
      list={list}
      panel={{ title, actions: <a href={hrefOf(["requests"], of)}>{words.withFilters}</a> }}
    />
  );
}

/** The requests, the newest first. `query` may read signals. */
function createRequestList(query: () => Input<"GET /api/requests">) {
  return createList<Row>({
    load: (page, abort) => call("GET /api/requests", { ...query(), ...page }, abort),
    keyOf: ({ id }) => id,
    follow: followStore,
  });
}

/** Names that the filters suggest. They are no more than a help, so a failure is not shown. */
function useSuggestions() {
  const accounts = useResource(() =>
    createResource((abort) => call("GET /api/accounts", { limit: SUGGESTED_MAX }, abort)),
  );
  const models = useResource(() => createResource((abort) => call("GET /api/models", {}, abort)));
  const rows = models.data.value?.data ?? [];
  const providers = rows.flatMap(({ routes }) => routes.map(({ provider }) => provider));
  return {
    accounts: accounts.data.value?.data.map(({ name }) => name) ?? [],
    models: rows.map(({ id }) => id),
    providers: [...new Set(providers)].toSorted(),
  };
}

const statuses = [
  { value: "", text: words.any },
  ...requestStatuses.map((value) => ({ value, text: shared.status[value] })),
];

const kinds = (["", "estimated", "written_off"] as const).map((value) => ({
  value,
  text: words.kinds[value],
}));

const columns: readonly Column<Row>[] = [
  { id: "at", head: words.time, kind: "time", value: ({ at }) => at },
  { id: "id", head: words.id, value: ({ id }) => id, isCsvOnly: true },
  {
    id: "status",
    head: words.status,
    value: ({ status }) => status,
    cell: ({ status }) => <Status status={status} />,
  },
  { id: "account", head: words.account, value: ({ account }) => account },
  { id: "key", head: words.key, value: ({ key_id }) => key_id, isCsvOnly: true },
  { id: "model", head: words.model, value: ({ model }) => model },
  { id: "provider", head: words.provider, value: ({ provider }) => provider, isDetail: true },
  {
    id: "attempts",
    head: words.attempts,
    kind: "count",
    value: (row) => row.attempt_count,
    isDetail: true,
  },
  { id: "prompt", head: words.prompt, kind: "count", value: (row) => row.prompt_tokens },
  {
    id: "cached",
    head: words.cached,
    kind: "count",
    value: (row) => row.cached_tokens,
    isDetail: true,
  },
  {
    id: "completion",
    head: words.completion,
    kind: "count",
    value: (row) => row.completion_tokens,
  },
  {
    id: "firstByte",
    head: words.firstByte,
    kind: "duration",
    value: (row) => row.first_byte_ms,
    isDetail: true,
  },
  { id: "duration", head: words.duration, kind: "duration", value: (row) => row.duration_ms },
  { id: "cost", head: words.cost, kind: "exactMoney", value: (row) => row.cost_rub },
];

const requestTable = {
  caption: text.views.requests,
  columns,
  hrefOf: ({ id }: Row) => hrefOf(["requests", id]),
  empty: <EmptyState title={words.none} />,
};
