import type { ComponentChildren } from "preact";
import { words } from "../language.ts";
import type { List } from "../list.ts";
import { Button } from "./buttons.tsx";
import { ClearFilters, FilterBar, type Filters } from "./filters.tsx";
import { Panel, type PanelProps } from "./frame.tsx";
import { EmptyState, Notice } from "./states.tsx";
import { Table, type TableProps } from "./table.tsx";
import { Time } from "./values.tsx";

export interface ListViewProps<Row> extends Pick<
  TableProps<Row>,
  "caption" | "columns" | "hrefOf" | "rowsExpected" | "foot"
> {
  readonly list: List<Row>;
  readonly filters?: Filters;
  /** What the panel has above the table. */
  readonly panel?: Pick<PanelProps, "title" | "text" | "actions">;
  /** What is shown if there are no rows, and no filter is set. */
  readonly empty: ComponentChildren;
}

/** A list that a server pages: its filters, its rows in a panel, and a button that loads more of them. */
export function ListView<Row>({ list, filters, panel, empty, ...table }: ListViewProps<Row>) {
  const shown = list.shown.value;
  const failure = list.failure.value;
  const searchedTo = shown?.searched_to ?? null;
  const hasMore = shown !== undefined && shown.next !== null;
  return (
    <>
      {filters && <FilterBar filters={filters} failure={failure} />}
      <Panel isFlush {...panel}>
        <Table
          rowsExpected={12}
          {...table}
          isCaptionHidden
          canCopyCsv
          rows={shown?.data}
          keyOf={list.keyOf}
          failure={failure}
          isLoading={list.isLoading.value}
          onRetry={list.reload}
          onMore={hasMore && searchedTo === null ? list.more : undefined}
          empty={
            filters?.isFiltered() ? (
              <EmptyState title={words.nothingFound}>
                <ClearFilters filters={filters} />
              </EmptyState>
            ) : (
              empty
            )
          }
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
      </Panel>
    </>
  );
}
