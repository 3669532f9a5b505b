import { useSignal, useSignalEffect } from "@preact/signals";
import type { AccountList } from "../../../contract/operator/lists.ts";
import { Button } from "../../components/buttons.tsx";
import { SearchField } from "../../components/fields.tsx";
import { Panel, Toolbar, ViewHead } from "../../components/frame.tsx";
import { EmptyState, Skeleton } from "../../components/states.tsx";
import { Table, type Column } from "../../components/table.tsx";
import { words } from "../../language.ts";
import { createResource, useResource } from "../../resource.ts";
import { hrefOf } from "../../router.ts";
import { sumOf } from "../amounts.ts";
import { useFilter } from "../lists/filters.tsx";
import { followStore } from "../live.ts";
import { call } from "../call.ts";
import { text } from "../text.ts";
import { CreateAccount } from "./accountDialogs.tsx";
import { AccountState } from "./accountState.tsx";

type Row = AccountList["data"][number];

const ROWS_FEW = 100;
/** The most rows of one answer. */
const ROWS_MAX = 1000;

/** All accounts by name, with what they have and what they used in 30 days. */
export function Accounts() {
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
        call("GET /api/accounts", { search: search.value.trim(), limit: limit.value }, abort),
      ),
    ),
  );
  const data = list.data.value;
  const rows = data?.data;
  const isCut = data !== undefined && data.total > data.data.length;
  return (
    <>
      <ViewHead
        title={text.views.accounts}
        text={data ? words.accounts(data.total) : !list.failure.value && <Skeleton />}
        actions={
          <Button tone="primary" onClick={() => (isCreating.value = true)}>
            {text.accounts.create}
          </Button>
        }
      />
      <Toolbar>
        <SearchField label={text.accounts.search} value={search} />
      </Toolbar>
      <Panel isFlush>
        <Table
          caption={text.views.accounts}
          isCaptionHidden
          columns={columns}
          rows={rows}
          keyOf={({ name }) => name}
          hrefOf={({ name }) => hrefOf(["accounts", name])}
          failure={list.failure.value}
          isLoading={rows === undefined && list.isLoading.value}
          onRetry={list.reload}
          onMore={isCut && limit.value < ROWS_MAX ? () => (limit.value = ROWS_MAX) : undefined}
          rowsExpected={12}
          canCopyCsv
          {...(rows && !isCut && rows.length > 1 && { foot: footOf(rows) })}
          empty={
            search.value === "" ? (
              <EmptyState title={text.accounts.none}>{text.accounts.noneHint}</EmptyState>
            ) : (
              <EmptyState title={words.nothingFound} />
            )
          }
        />
      </Panel>
      {isCut && limit.value >= ROWS_MAX && <p class="hint">{text.lists.narrow}</p>}
      {isCreating.value && <CreateAccount onClose={() => (isCreating.value = false)} />}
    </>
  );
}

const columns: readonly Column<Row>[] = [
  { id: "name", head: text.accounts.name, value: ({ name }) => name, isSortable: true },
  {
    id: "state",
    head: text.accounts.state,
    value: ({ disabled }) => (disabled ? text.accounts.disabled : text.accounts.active),
    cell: ({ disabled }) => <AccountState isDisabled={disabled} />,
  },
  {
    id: "available",
    head: text.accounts.available,
    kind: "money",
    value: (row) => row.available_rub,
    isSortable: true,
  },
  {
    id: "balance",
    head: text.accounts.balance,
    kind: "money",
    value: (row) => row.balance_rub,
    isSortable: true,
  },
  {
    id: "held",
    head: text.accounts.held,
    kind: "money",
    value: (row) => row.held_rub,
    isSortable: true,
  },
  {
    id: "overdraft",
    head: text.accounts.overdraft,
    kind: "money",
    value: (row) => row.overdraft_rub,
    isSortable: true,
  },
  {
    id: "charged",
    head: text.lists.charged30d,
    kind: "money",
    value: (row) => row.charged_30d_rub,
    isSortable: true,
  },
  {
    id: "requests",
    head: text.lists.requests30d,
    kind: "count",
    value: (row) => row.requests_30d,
    isSortable: true,
  },
  {
    id: "keys",
    head: text.accounts.keys,
    kind: "count",
    value: ({ keys }) => keys,
    isSortable: true,
  },
];

function footOf(rows: readonly Row[]) {
  return {
    name: words.total,
    available: sumOf(rows.map((row) => row.available_rub)),
    balance: sumOf(rows.map((row) => row.balance_rub)),
    held: sumOf(rows.map((row) => row.held_rub)),
    charged: sumOf(rows.map((row) => row.charged_30d_rub)),
    requests: rows.reduce((sum, row) => sum + row.requests_30d, 0),
    keys: rows.reduce((sum, { keys }) => sum + keys, 0),
  };
}
