import { useSignal } from "@preact/signals";
import type { VoucherList } from "../../../contract/operator/lists.ts";
import { Button } from "../../components/buttons.tsx";
import { useFilters } from "../../components/filters.tsx";
import { ViewHead } from "../../components/frame.tsx";
import { ListView } from "../../components/list.tsx";
import { EmptyState } from "../../components/states.tsx";
import type { Column } from "../../components/table.tsx";
import { Name } from "../../components/text.tsx";
import { None, Time } from "../../components/values.tsx";
import { createList } from "../../list.ts";
import { useResource } from "../../resource.ts";
import { hrefOf } from "../../router.ts";
import { call } from "../call.ts";
import { followStore } from "../live.ts";
import { text } from "../text.ts";
import { CreateVouchers, RevokeVoucher } from "./voucherDialogs.tsx";
import { VoucherState } from "./voucherState.tsx";

type Row = VoucherList["data"][number];

const words = text.vouchers;

/** Vouchers, the newest first: who redeemed them, and which are open. */
export function Vouchers() {
  const isCreating = useSignal(false);
  const revoked = useSignal<Row | undefined>(undefined);
  const filters = useFilters([{ name: "search", label: words.search, kind: "search" }]);
  const list = useResource(() =>
    createList({
      load: (page, abort) => call("GET /api/vouchers", { ...filters.values(), ...page }, abort),
      keyOf: ({ id }) => id,
      pageRows: 100,
      follow: followStore,
    }),
  );
  const revokeColumn: Column<Row> = {
    id: "revoke",
    head: words.revoke.head,
    value: () => null,
    cell: (row) =>
      row.state === "open" && (
        <Button
          size="small"
          label={words.revoke.one(row.prefix)}
          onClick={() => (revoked.value = row)}
        >
          {words.revoke.action}
        </Button>
      ),
  };
  return (
    <>
      <ViewHead
        title={text.views.vouchers}
        text={words.intro}
        actions={
          <Button tone="primary" onClick={() => (isCreating.value = true)}>
            {words.create}
          </Button>
        }
      />
      <ListView
        caption={text.views.vouchers}
        columns={[...columns, revokeColumn]}
        list={list}
        filters={filters}
        empty={<EmptyState title={words.none}>{words.noneHint}</EmptyState>}
      />
      {isCreating.value && (
        <CreateVouchers onClose={() => (isCreating.value = false)} onDone={list.reload} />
      )}
      {revoked.value && (
        <RevokeVoucher
          voucher={revoked.value}
          onClose={() => (revoked.value = undefined)}
          onDone={list.reload}
        />
      )}
    </>
  );
}

const columns: readonly Column<Row>[] = [
  {
    id: "prefix",
    head: words.code,
    kind: "code",
    value: ({ prefix }) => prefix,
    cell: ({ prefix }) => <Name text={`${prefix}…`} isCode />,
  },
  { id: "id", head: words.id, kind: "code", value: ({ id }) => id, isCsvOnly: true },
  {
    id: "amount",
    head: words.amount,
    kind: "money",
    value: (voucher) => voucher.amount_rub,
    isSortable: true,
  },
  {
    id: "state",
    head: words.state,
    value: ({ state }) => words.states[state],
    cell: ({ state }) => <VoucherState state={state} />,
    isSortable: true,
  },
  {
    id: "by",
    head: words.redeemedBy,
    value: (voucher) => voucher.redeemed_by,
    cell: ({ redeemed_by }) =>
      redeemed_by === null ? (
        <None />
      ) : (
        <a href={hrefOf(["accounts", redeemed_by])}>
          <Name text={redeemed_by} />
        </a>
      ),
    isSortable: true,
  },
  { id: "redeemed", head: words.redeemedAt, kind: "time", value: (row) => row.redeemed_at },
  {
    id: "created",
    head: words.createdAt,
    kind: "time",
    value: (row) => row.created_at,
    cell: (row) => <Time at={row.created_at} form="date" />,
    isDetail: true,
  },
  {
    id: "expires",
    head: words.expires,
    kind: "time",
    value: (row) => row.expires_at,
    cell: (row) => <Time at={row.expires_at} form="date" />,
  },
  { id: "note", head: words.note, value: ({ note }) => note },
];
