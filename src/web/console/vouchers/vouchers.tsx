import { useSignal, useSignalEffect } from "@preact/signals";
import type { VoucherList } from "../../../contract/operator/lists.ts";
import { Button } from "../../components/buttons.tsx";
import { SearchField } from "../../components/fields.tsx";
import { Panel, Toolbar, ViewHead } from "../../components/frame.tsx";
import { EmptyState } from "../../components/states.tsx";
import { Table, type Column } from "../../components/table.tsx";
import { Name } from "../../components/text.tsx";
import { None, Time } from "../../components/values.tsx";
import { words as shared } from "../../language.ts";
import { createResource, useResource } from "../../resource.ts";
import { hrefOf } from "../../router.ts";
import { useFilter } from "../lists/filters.tsx";
import { followStore } from "../live.ts";
import { call } from "../call.ts";
import { text } from "../text.ts";
import { CreateVouchers, RevokeVoucher } from "./voucherDialogs.tsx";
import { VoucherState } from "./voucherState.tsx";

type Row = VoucherList["data"][number];

const words = text.vouchers;

const ROWS_FEW = 100;
/** The most rows of one answer. */
const ROWS_MAX = 1000;

/** Vouchers, the newest first: who redeemed them, and which are open. */
export function Vouchers() {
  const search = useFilter("search");
  const limit = useSignal(ROWS_FEW);
  const isCreating = useSignal(false);
  const revoked = useSignal<Row | undefined>(undefined);
  useSignalEffect(() => {
    // Another search starts with few rows again.
    if (search.value !== undefined) limit.value = ROWS_FEW;
  });
  const list = useResource(() =>
    followStore(
      createResource((abort) =>
        call("GET /api/vouchers", { search: search.value.trim(), limit: limit.value }, abort),
      ),
    ),
  );
  const data = list.data.value;
  const isCut = data !== undefined && data.total > data.data.length;
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
      <Toolbar>
        <SearchField label={words.search} value={search} />
      </Toolbar>
      <Panel isFlush>
        <Table
          caption={text.views.vouchers}
          isCaptionHidden
          columns={[...columns, revokeColumn]}
          rows={data?.data}
          keyOf={({ id }) => id}
          failure={list.failure.value}
          isLoading={data === undefined && list.isLoading.value}
          onRetry={list.reload}
          onMore={isCut && limit.value < ROWS_MAX ? () => (limit.value = ROWS_MAX) : undefined}
          rowsExpected={10}
          canCopyCsv
          empty={
            search.value === "" ? (
              <EmptyState title={words.none}>{words.noneHint}</EmptyState>
            ) : (
              <EmptyState title={shared.nothingFound} />
            )
          }
        />
      </Panel>
      {isCut && limit.value >= ROWS_MAX && <p class="hint">{text.lists.narrow}</p>}
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
