import { useSignal, useSignalEffect } from "@preact/signals";
import type { Receipt } from "../../../contract/account/receipt.ts";
import { requestStatuses } from "../../../contract/account/requestStatus.ts";
import { Button } from "../../components/buttons.tsx";
import type { SelectOption } from "../../components/fields.tsx";
import { useFilters } from "../../components/filters.tsx";
import { ViewHead } from "../../components/frame.tsx";
import { ListView } from "../../components/list.tsx";
import { EmptyState } from "../../components/states.tsx";
import { Status } from "../../components/values.tsx";
import type { Column } from "../../components/table.tsx";
import { words as shared } from "../../language.ts";
import { createList } from "../../list.ts";
import { useResource } from "../../resource.ts";
import { hrefOf } from "../../router.ts";
import { requestPage, type Holding } from "../holding.ts";
import { optionText, text } from "../text.ts";

const words = text.requests;
/** A row is a list of its own on a small screen. */
const PAGE_ROWS = matchMedia("(max-width: 40rem)").matches ? 20 : 50;
/** The most rows of one answer. */
const ROWS_MAX = 100;

/** The requests of the account, newest first, with filters. */
export function Requests({ holding }: { holding: Holding }) {
  const filters = useFilters([
    {
      name: "model",
      label: words.model,
      kind: "choice",
      options: modelOptions(holding),
      textOf: optionText,
    },
    { name: "status", label: words.status, kind: "choice", options: statusOptions },
  ]);
  const list = useResource(() =>
    createList({
      load: (page, abort) => requestPage(holding.api, { ...filters.values(), ...page }, abort),
      keyOf: ({ id }) => id,
      pageRows: PAGE_ROWS,
      rowsMax: ROWS_MAX,
    }),
  );
  const hasNews = useSignal(false);
  const seenMoves = useSignal(holding.moves.peek());
  useSignalEffect(() => {
    const moves = holding.moves.value;
    if (moves === seenMoves.peek()) return;
    seenMoves.value = moves;
    // New rows above those that the reader has opened would move them.
    if ((list.data.peek()?.length ?? 0) <= PAGE_ROWS) list.reload();
    else hasNews.value = true;
  });
  const showNew = (): void => {
    hasNews.value = false;
    list.reload();
  };
  return (
    <>
      <ViewHead
        title={text.views.requests}
        text={words.intro}
        actions={hasNews.value && <Button onClick={showNew}>{words.showNew}</Button>}
      />
      <ListView {...requestTable} caption={text.views.requests} list={list} filters={filters} />
    </>
  );
}

const statusOptions: readonly SelectOption[] = [
  { value: "", text: words.anyStatus },
  ...requestStatuses.map((value) => ({ value, text: shared.status[value] })),
];

/** The models that the account used in the span of the report, and those that the key may use. */
function modelOptions(holding: Holding): readonly SelectOption[] {
  const used = holding.spending.data.value?.rows.map(({ model = "" }) => model) ?? [];
  const offered = holding.models().data.value?.map(({ id }) => id) ?? [];
  const names = new Set([...used, ...offered].filter(Boolean));
  return [
    { value: "", text: words.anyModel },
    ...[...names].toSorted().map((value) => ({ value, text: optionText(value) })),
  ];
}

const columns: readonly Column<Receipt>[] = [
  { id: "at", head: words.time, kind: "time", value: ({ at }) => at },
  { id: "id", head: words.id, value: ({ id }) => id, isCsvOnly: true },
  { id: "model", head: words.model, value: ({ model }) => model },
  {
    id: "status",
    head: words.status,
    value: ({ status }) => status,
    cell: ({ status }) => <Status status={status} />,
  },
  {
    id: "prompt",
    head: words.prompt,
    kind: "count",
    value: ({ prompt_tokens }) => prompt_tokens,
  },
  {
    id: "cached",
    head: words.cached,
    kind: "count",
    value: ({ cached_tokens }) => cached_tokens,
  },
  {
    id: "completion",
    head: words.completion,
    kind: "count",
    value: ({ completion_tokens }) => completion_tokens,
  },
  {
    id: "firstByte",
    head: words.firstByte,
    kind: "duration",
    value: ({ first_byte_ms }) => first_byte_ms,
  },
  {
    id: "duration",
    head: words.duration,
    kind: "duration",
    value: ({ duration_ms }) => duration_ms,
  },
  { id: "cost", head: words.cost, kind: "exactMoney", value: ({ cost_rub }) => cost_rub },
];

/** Requests with what they used and cost, for a table or a list. A row opens the receipt. */
export const requestTable = {
  columns,
  hrefOf: ({ id }: Receipt) => hrefOf(["requests", id]),
  empty: (
    <EmptyState title={words.none}>
      <a href={hrefOf(["try"])}>{words.tryOne}</a>
    </EmptyState>
  ),
};
