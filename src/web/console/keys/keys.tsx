import { useSignal, useSignalEffect } from "@preact/signals";
import { Button } from "../../components/buttons.tsx";
import { SearchField } from "../../components/fields.tsx";
import { Panel, Toolbar, ViewHead } from "../../components/frame.tsx";
import { EmptyState, Skeleton } from "../../components/states.tsx";
import { words as shared } from "../../language.ts";
import { createResource, useResource } from "../../resource.ts";
import { useFilter } from "../lists/filters.tsx";
import { followStore } from "../live.ts";
import { call } from "../call.ts";
import { text } from "../text.ts";
import { CreateKey } from "./keyDialogs.tsx";
import { KeyTable } from "./keyTable.tsx";

const ROWS_FEW = 100;
/** The most rows of one answer. */
const ROWS_MAX = 1000;

/** All keys, the newest first. */
export function Keys() {
  const search = useFilter("search");
  const limit = useSignal(ROWS_FEW);
  const isCreating = useSignal(false);
  useSignalEffect(() => {
    // Another search starts with few rows again.
    if (search.value !== undefined) limit.value = ROWS_FEW;
  });
  const list = useResource(() =>
    followStore(
      createResource((abort) =>
        call("GET /api/keys", { search: search.value.trim(), limit: limit.value }, abort),
      ),
    ),
  );
  const data = list.data.value;
  const isCut = data !== undefined && data.total > data.data.length;
  return (
    <>
      <ViewHead
        title={text.views.keys}
        text={data ? shared.keys(data.total) : !list.failure.value && <Skeleton />}
        actions={
          <Button tone="primary" onClick={() => (isCreating.value = true)}>
            {text.keys.create}
          </Button>
        }
      />
      <Toolbar>
        <SearchField label={text.keys.search} value={search} />
      </Toolbar>
      <Panel isFlush>
        <KeyTable
          rows={data?.data}
          failure={list.failure.value}
          isLoading={data === undefined && list.isLoading.value}
          onRetry={list.reload}
          onMore={isCut && limit.value < ROWS_MAX ? () => (limit.value = ROWS_MAX) : undefined}
          rowsExpected={12}
          empty={search.value === "" ? undefined : <EmptyState title={shared.nothingFound} />}
        />
      </Panel>
      {isCut && limit.value >= ROWS_MAX && <p class="hint">{text.lists.narrow}</p>}
      {isCreating.value && <CreateKey onClose={() => (isCreating.value = false)} />}
    </>
  );
}
