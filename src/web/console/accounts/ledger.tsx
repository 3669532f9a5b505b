import type { LedgerPage } from "../../../contract/operator/lists.ts";
import { ListView } from "../../components/list.tsx";
import { EmptyState } from "../../components/states.tsx";
import type { Column } from "../../components/table.tsx";
import { None, Tag, type TagTone } from "../../components/values.tsx";
import { createList } from "../../list.ts";
import { useResource } from "../../resource.ts";
import { hrefOf } from "../../router.ts";
import { call } from "../call.ts";
import { followStore } from "../live.ts";
import { text } from "../text.ts";

type Entry = LedgerPage["data"][number];

const words = text.ledger;

/** The entries of an account, the newest first. */
export function Ledger({ account }: { account: string }) {
  const list = useResource(
    () =>
      createList({
        load: (page, abort) =>
          call("GET /api/accounts/:account/ledger", { account, ...page }, abort),
        keyOf: ({ id }) => String(id),
        follow: followStore,
      }),
    account,
  );
  return (
    <ListView
      caption={words.title}
      columns={columns}
      list={list}
      panel={{ title: words.title, text: words.intro }}
      empty={<EmptyState title={words.none}>{words.noneHint}</EmptyState>}
    />
  );
}

const tones: Readonly<Record<Entry["kind"], TagTone>> = {
  credit: "good",
  debit: "warning",
  charge: "neutral",
  refund: "info",
};

const columns: readonly Column<Entry>[] = [
  { id: "at", head: words.time, kind: "time", value: ({ at }) => at },
  { id: "id", head: words.number, value: ({ id }) => id, isCsvOnly: true },
  {
    id: "kind",
    head: words.kind,
    value: ({ kind }) => words.kinds[kind],
    cell: ({ kind }) => <Tag tone={tones[kind]}>{words.kinds[kind]}</Tag>,
  },
  { id: "amount", head: words.amount, kind: "exactMoney", value: (entry) => entry.amount_rub },
  { id: "balance", head: words.balance, kind: "exactMoney", value: (entry) => entry.balance_rub },
  {
    id: "request",
    head: words.request,
    kind: "code",
    value: (entry) => entry.request_id,
    cell: ({ request_id }) =>
      request_id === null ? (
        <None />
      ) : (
        <a class="clip code" href={hrefOf(["requests", request_id])}>
          {request_id}
        </a>
      ),
  },
  {
    id: "ref",
    head: words.ref,
    kind: "code",
    // The ref of a charge repeats its request.
    value: ({ kind, ref }) => (kind === "charge" ? null : ref),
  },
  { id: "note", head: words.note, value: ({ note }) => note },
];
