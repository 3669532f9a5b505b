import { useSignal } from "@preact/signals";
import { Button } from "../../components/buttons.tsx";
import { useFilters } from "../../components/filters.tsx";
import { ViewHead } from "../../components/frame.tsx";
import { ListView } from "../../components/list.tsx";
import { Skeleton } from "../../components/states.tsx";
import { words as shared } from "../../language.ts";
import { createList } from "../../list.ts";
import { useResource } from "../../resource.ts";
import { call } from "../call.ts";
import { followStore } from "../live.ts";
import { text } from "../text.ts";
import { CreateKey } from "./keyDialogs.tsx";
import { keyTable } from "./keyTable.tsx";

/** All keys, the newest first. */
export function Keys() {
  const isCreating = useSignal(false);
  const filters = useFilters([{ name: "search", label: text.keys.search, kind: "search" }]);
  const list = useResource(() =>
    createList({
      load: (page, abort) => call("GET /api/keys", { ...filters.values(), ...page }, abort),
      keyOf: ({ id }) => id,
      pageRows: 100,
      follow: followStore,
    }),
  );
  const shown = list.shown.value;
  return (
    <>
      <ViewHead
        title={text.views.keys}
        text={shown ? shared.keys(shown.total ?? 0) : !list.failure.value && <Skeleton />}
        actions={
          <Button tone="primary" onClick={() => (isCreating.value = true)}>
            {text.keys.create}
          </Button>
        }
      />
      <ListView {...keyTable} list={list} filters={filters} />
      {isCreating.value && <CreateKey onClose={() => (isCreating.value = false)} />}
    </>
  );
}
