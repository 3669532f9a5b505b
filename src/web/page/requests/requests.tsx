import { batch, useSignal, useSignalEffect, type Signal } from "@preact/signals";
import type { ComponentChildren } from "preact";
import type { Receipt } from "../../../contract/account/receipt.ts";
import { requestStatuses } from "../../../contract/account/requestStatus.ts";
import type { ApiFailure } from "../../api.ts";
import { Button } from "../../components/buttons.tsx";
import { SelectField, type SelectOption } from "../../components/fields.tsx";
import { Panel, Toolbar, ViewHead } from "../../components/frame.tsx";
import { EmptyState } from "../../components/states.tsx";
import { Status } from "../../components/status.tsx";
import { Table, type Column } from "../../components/table.tsx";
import { words as shared } from "../../language.ts";
import { createListResource, useResource } from "../../resource.ts";
import { changeQuery, hrefOf, place } from "../../router.ts";
import { inWords } from "../failures.ts";
import { requestPage, type Holding } from "../holding.ts";
import { optionText, text } from "../text.ts";

const words = text.requests;
/** A row is a list of its own on a small screen. */
const PAGE_ROWS = matchMedia("(max-width: 40rem)").matches ? 20 : 50;

/** The requests of the account, newest first, with filters. */
export function Requests({ holding }: { holding: Holding }) {
  const model = useSignal(place.peek().query["model"] ?? "");
  const status = useSignal(place.peek().query["status"] ?? "");
  const list = useResource(() =>
    createListResource((before, abort) =>
      requestPage(
        holding.api,
        {
          limit: PAGE_ROWS,
          model: model.value,
          status: status.value,
          ...(before !== undefined && { before }),
        },
        abort,
      ),
    ),
  );
  const hasNews = useSignal(false);
  const seenMoves = useSignal(holding.moves.peek());
  // The address has the filters, so that the way back and a link keep them.
  useSignalEffect(() => {
    const { path, query } = place.value;
    if (path.length !== 1 || path[0] !== "requests") return;
    batch(() => {
      model.value = query["model"] ?? "";
      status.value = query["status"] ?? "";
    });
  });
  useSignalEffect(() => changeQuery({ model: model.value, status: status.value }));
  useSignalEffect(() => {
    const moves = holding.moves.value;
    if (moves === seenMoves.peek()) return;
    seenMoves.value = moves;
    // Pages that the reader has opened must not disappear.
    if ((list.data.peek()?.length ?? 0) <= PAGE_ROWS) list.reload();
    else hasNews.value = true;
  });
  const isFiltered = model.value !== "" || status.value !== "";
  const clear = (): void => {
    model.value = "";
    status.value = "";
  };
  return (
    <>
      <ViewHead title={text.views.requests} text={words.intro} />
      <Toolbar>
        <SelectField label={words.model} value={model} options={modelOptions(holding, model)} />
        <SelectField label={words.status} value={status} options={statusOptions} />
        {isFiltered && (
          <Button tone="quiet" onClick={clear}>
            {words.clear}
          </Button>
        )}
        {hasNews.value && (
          <Button
            onClick={() => {
              hasNews.value = false;
              list.reload();
            }}
          >
            {words.showNew}
          </Button>
        )}
      </Toolbar>
      <Panel isFlush>
        <RequestTable
          caption={text.views.requests}
          rows={list.data.value}
          failure={list.failure.value}
          isLoading={list.isLoading.value}
          onRetry={list.reload}
          onMore={list.hasMore.value ? list.more : undefined}
          rowsExpected={12}
          canCopyCsv
          empty={
            isFiltered ? (
              <EmptyState title={shared.nothingFound}>
                <Button onClick={clear}>{words.clear}</Button>
              </EmptyState>
            ) : undefined
          }
        />
      </Panel>
    </>
  );
}

const statusOptions: readonly SelectOption[] = [
  { value: "", text: words.anyStatus },
  ...requestStatuses.map((value) => ({ value, text: shared.status[value] })),
];

/** The models that the account used in the span of the report, those that the key may use, and the one that is chosen. */
function modelOptions(holding: Holding, chosen: Signal<string>) {
  const used = holding.spending.data.value?.rows.map(({ model = "" }) => model) ?? [];
  const offered = holding.models().data.value?.map(({ id }) => id) ?? [];
  const names = new Set([chosen.value, ...used, ...offered].filter(Boolean));
  return [
    { value: "", text: words.anyModel },
    ...[...names].toSorted().map((value) => ({ value, text: optionText(value) })),
  ];
}

export interface RequestTableProps {
  readonly caption: string;
  readonly rows: readonly Receipt[] | undefined;
  readonly failure: ApiFailure | undefined;
  readonly isLoading: boolean;
  readonly onRetry: () => void;
  readonly onMore?: (() => void) | undefined;
  readonly rowsExpected?: number;
  readonly canCopyCsv?: boolean;
  readonly empty?: ComponentChildren;
  /** Without what only the list of all requests needs. */
  readonly isShort?: boolean;
}

/** Requests with what they used and cost. A row opens the receipt. */
export function RequestTable({ failure, empty, isShort = false, ...props }: RequestTableProps) {
  return (
    <Table
      {...props}
      isCaptionHidden
      columns={isShort ? columns.filter(({ id }) => !detailColumns.has(id)) : columns}
      keyOf={({ id }) => id}
      hrefOf={({ id }) => hrefOf(["requests", id])}
      failure={failure && inWords(failure)}
      empty={
        empty ?? (
          <EmptyState title={words.none}>
            <a href={hrefOf(["try"])}>{words.tryOne}</a>
          </EmptyState>
        )
      }
    />
  );
}

const detailColumns: ReadonlySet<string> = new Set(["cached", "firstByte", "duration"]);

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
