import { useSignal } from "@preact/signals";
import type { AccountList } from "../../../contract/operator/lists.ts";
import { Button } from "../../components/buttons.tsx";
import { useFilters } from "../../components/filters.tsx";
import { ViewHead } from "../../components/frame.tsx";
import { ListView } from "../../components/list.tsx";
import { EmptyState, Skeleton } from "../../components/states.tsx";
import type { Column } from "../../components/table.tsx";
import { words } from "../../language.ts";
import { createList } from "../../list.ts";
import { useResource } from "../../resource.ts";
import { hrefOf } from "../../router.ts";
import { sumOf } from "../amounts.ts";
import { call } from "../call.ts";
import { followStore } from "../live.ts";
import { text } from "../text.ts";
import { CreateAccount } from "./accountDialogs.tsx";
import { AccountState } from "./accountState.tsx";

type Row = AccountList["data"][number];

/** All accounts by name, with what they have and what they used in 30 days. */
export function Accounts() {
  const isCreating = useSignal(false);
  const filters = useFilters([{ name: "search", label: text.accounts.search, kind: "search" }]);
  const list = useResource(() =>
    createList({
      load: (page, abort) => call("GET /api/accounts", { ...filters.values(), ...page }, abort),
      keyOf: ({ name }) => name,
      pageRows: 100,
      follow: followStore,
    }),
  );
  const shown = list.shown.value;
  const isWhole = shown !== undefined && shown.next === null && shown.data.length > 1;
  return (
    <>
      <ViewHead
        title={text.views.accounts}
        text={shown ? words.accounts(shown.total ?? 0) : !list.failure.value && <Skeleton />}
        actions={
          <Button tone="primary" onClick={() => (isCreating.value = true)}>
            {text.accounts.create}
          </Button>
        }
      />
      <ListView
        caption={text.views.accounts}
        columns={columns}
        list={list}
        filters={filters}
        hrefOf={({ name }) => hrefOf(["accounts", name])}
        {...(isWhole && { foot: footOf(shown.data) })}
        empty={<EmptyState title={text.accounts.none}>{text.accounts.noneHint}</EmptyState>}
      />
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
