import type { KeyList } from "../../../contract/operator/lists.ts";
import { EmptyState } from "../../components/states.tsx";
import type { Column } from "../../components/table.tsx";
import { Name } from "../../components/text.tsx";
import { None, Tag, type TagTone, Time } from "../../components/values.tsx";
import { hrefOf } from "../../router.ts";
import { text } from "../text.ts";

export type KeyRow = KeyList["data"][number];

const words = text.keys;

const tones: Readonly<Record<KeyRow["state"], TagTone>> = {
  active: "good",
  expired: "warning",
  revoked: "neutral",
  damaged: "bad",
  "account disabled": "warning",
};

/** Whether a key is accepted now. */
export function KeyState({ state, isReplaced }: { state: KeyRow["state"]; isReplaced: boolean }) {
  return (
    <Tag tone={tones[state]}>
      {words.states[state]}
      {isReplaced && `, ${words.replaced}`}
    </Tag>
  );
}

const columns: readonly Column<KeyRow>[] = [
  {
    id: "label",
    head: words.key,
    value: ({ label, prefix }) => label ?? prefix,
    cell: ({ label, prefix }) => <Name text={label ?? `${prefix}…`} isCode={label === null} />,
    isSortable: true,
  },
  { id: "id", head: words.id, kind: "code", value: ({ id }) => id, isCsvOnly: true },
  { id: "account", head: words.account, value: ({ account }) => account, isSortable: true },
  {
    id: "state",
    head: words.state,
    value: ({ state }) => words.states[state],
    cell: ({ state, is_replaced }) => <KeyState state={state} isReplaced={is_replaced} />,
    isSortable: true,
  },
  {
    id: "budget",
    head: words.budget,
    kind: "money",
    value: (key) => key.budget_rub,
    isSortable: true,
  },
  {
    id: "spent",
    head: words.spent,
    kind: "money",
    value: (key) => key.spent_rub,
    isSortable: true,
  },
  {
    id: "charged",
    head: text.lists.charged30d,
    kind: "money",
    value: (key) => key.charged_30d_rub,
    isSortable: true,
  },
  {
    id: "requests",
    head: text.lists.requests30d,
    kind: "count",
    value: (key) => key.requests_30d,
    isSortable: true,
  },
  {
    id: "used",
    head: words.lastUsed,
    kind: "time",
    value: (key) => key.last_used_at,
    cell: (key) => <Time at={key.last_used_at} form="relative" />,
    isSortable: true,
  },
  {
    id: "expires",
    head: words.expires,
    kind: "time",
    value: (key) => key.expires_at,
    cell: (key) => (key.expires_at === null ? <None /> : <Time at={key.expires_at} form="date" />),
    isSortable: true,
  },
];

/** Keys with what they may spend and have spent, for a table or a list. A row opens the key. */
export const keyTable = {
  caption: text.views.keys,
  columns,
  hrefOf: ({ id }: KeyRow) => hrefOf(["keys", id]),
  empty: <EmptyState title={words.none} />,
};
