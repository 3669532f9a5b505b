import type { ComponentChildren } from "preact";
import type { RequestList } from "../../../contract/operator/lists.ts";
import { Button } from "../../components/buttons.tsx";
import { Panel } from "../../components/frame.tsx";
import { EmptyState, Notice } from "../../components/states.tsx";
import { Status } from "../../components/status.tsx";
import { Table, type Column } from "../../components/table.tsx";
import { Time } from "../../components/values.tsx";
import { useResource } from "../../resource.ts";
import { hrefOf, type PlaceQuery } from "../../router.ts";
import { createLiveList, type LiveList } from "../lists/liveList.ts";
import { call, type Input } from "../call.ts";
import { text } from "../text.ts";

type Row = RequestList["data"][number];

const words = text.requests;

/** A live list of requests. `query` may read signals. */
export function createRequestList(query: () => Input<"GET /api/requests">): LiveList<Row> {
  return createLiveList(
    (page, abort) => call("GET /api/requests", { ...query(), ...page }, abort),
    ({ id }) => id,
  );
}

export interface RequestTableProps {
  readonly list: LiveList<Row>;
  /** Columns that say the same in each row. */
  readonly hidden?: readonly string[];
  readonly rowsExpected?: number;
  readonly empty?: ComponentChildren;
}

/** Requests, the newest first. A row opens the request. */
export function RequestTable({ list, hidden = [], rowsExpected = 10, empty }: RequestTableProps) {
  const searchedTo = list.searchedTo.value;
  return (
    <>
      <Table
        caption={text.views.requests}
        isCaptionHidden
        columns={columns.filter(({ id }) => !hidden.includes(id))}
        rows={list.data.value}
        keyOf={({ id }) => id}
        hrefOf={({ id }) => hrefOf(["requests", id])}
        failure={list.failure.value}
        isLoading={list.isLoading.value}
        onRetry={list.reload}
        onMore={searchedTo === null && list.hasMore.value ? list.more : undefined}
        rowsExpected={rowsExpected}
        canCopyCsv
        empty={empty ?? <EmptyState title={words.none} />}
      />
      {searchedTo !== null && (
        <Notice
          title={
            <>
              {words.searchedTo} <Time at={searchedTo} />
            </>
          }
          action={
            <Button size="small" onClick={list.more} isBusy={list.isLoading.value}>
              {words.searchOn}
            </Button>
          }
        />
      )}
    </>
  );
}

/** The last requests of one thing, with the way to all of them. */
export function RequestsOf({
  title,
  of,
  hidden,
}: {
  title: string;
  of: PlaceQuery;
  hidden: readonly string[];
}) {
  const list = useResource(() => createRequestList(() => of), JSON.stringify(of));
  return (
    <Panel
      isFlush
      title={title}
      actions={<a href={hrefOf(["requests"], of)}>{words.withFilters}</a>}
    >
      <RequestTable list={list} hidden={hidden} />
    </Panel>
  );
}

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
