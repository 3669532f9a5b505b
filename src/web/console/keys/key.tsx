import { useSignal } from "@preact/signals";
import { ApiFailure } from "../../api.ts";
import { Button, CopyButton } from "../../components/buttons.tsx";
import { Meter } from "../../components/figures.tsx";
import { Facts, Panel, ViewHead } from "../../components/frame.tsx";
import { Loaded, Skeleton, SkeletonBlock } from "../../components/states.tsx";
import { Name } from "../../components/text.tsx";
import { Count, Money, None, Time } from "../../components/values.tsx";
import { formats } from "../../language.ts";
import { createResource, useResource } from "../../resource.ts";
import { hrefOf } from "../../router.ts";
import { followStore } from "../live.ts";
import { RequestsOf } from "../requests/requests.tsx";
import { call } from "../call.ts";
import { text } from "../text.ts";
import { ChangeKey, type KeyChange } from "./keyDialogs.tsx";
import { KeyState, type KeyRow } from "./keyTable.tsx";

const words = text.keys;

/** One key: what it may do, what it used, and what the operator changes. */
export function Key({ id }: { id: string }) {
  const dialog = useSignal<KeyChange | undefined>(undefined);
  const resource = useResource(
    () => followStore(createResource((abort) => readKey(id, abort))),
    id,
  );
  const row = resource.data.value;
  const action = (change: KeyChange, tone: "primary" | "plain" = "plain") => (
    <Button
      tone={tone}
      isDisabled={row === undefined || row.revoked_at !== null}
      onClick={() => (dialog.value = change)}
    >
      {words.actions[change]}
    </Button>
  );
  return (
    <>
      <ViewHead
        back={{ href: hrefOf(["keys"]), text: text.views.keys }}
        title={<Name text={row?.label ?? id} isCode={(row?.label ?? null) === null} />}
        text={
          row ? (
            <>
              <KeyState state={row.state} isReplaced={row.is_replaced} /> ·{" "}
              <a href={hrefOf(["accounts", row.account])}>
                <Name text={row.account} />
              </a>
            </>
          ) : (
            resource.isLoading.value && <Skeleton characters={16} />
          )
        }
        actions={
          <>
            {action("settings", "primary")}
            {action("rotate")}
            {action("revoke")}
          </>
        }
      />
      <Panel title={words.details}>
        <Loaded resource={resource} skeleton={<SkeletonBlock rem={14} />}>
          {(key) => <Details row={key} />}
        </Loaded>
      </Panel>
      {row && <RequestsOf title={text.views.requests} of={{ key: id }} hidden={["account"]} />}
      {row && dialog.value !== undefined && (
        <ChangeKey
          key={dialog.value}
          change={dialog.value}
          row={row}
          onClose={() => (dialog.value = undefined)}
          onDone={resource.reload}
        />
      )}
    </>
  );
}

/** A search finds each key whose id contains the text, so the key with exactly this id is picked. */
async function readKey(id: string, abort: AbortSignal): Promise<KeyRow> {
  const { data } = await call("GET /api/keys", { search: id }, abort);
  const row = data.find((key) => key.id === id);
  if (row === undefined) throw new ApiFailure(404, words.unknown);
  return row;
}

function Address({ address }: { address: string | null }) {
  return address === null ? <None /> : <Name text={address} isCode />;
}

function Details({ row }: { row: KeyRow }) {
  const { limits, models } = row;
  const limit = (value: number | null) =>
    value === null ? words.asConfigured : value === 0 ? words.noLimit : <Count value={value} />;
  return (
    <>
      {row.budget_rub !== null && (
        <div class="stack meters">
          <Meter
            label={words.budget}
            used={row.spent_rub}
            limit={row.budget_rub}
            usedText={formats.money(row.spent_rub)}
            limitText={formats.money(row.budget_rub)}
          />
        </div>
      )}
      <Facts
        facts={[
          [
            words.id,
            <span key="id">
              <code>{row.id}</code> <CopyButton text={row.id} label={row.id} />
            </span>,
          ],
          [words.prefix, <Name key="prefix" text={`${row.prefix}…`} isCode />],
          ...(row.budget_rub === null ? [[words.budget, words.noBudget] as const] : []),
          [words.spent, <Money key="spent" amount={row.spent_rub} isExact />],
          [text.lists.charged30d, <Money key="charged" amount={row.charged_30d_rub} />],
          [text.lists.requests30d, <Count key="requests" value={row.requests_30d} />],
          [
            words.models,
            models === null ? (
              words.allModels
            ) : models.length === 0 ? (
              <None />
            ) : (
              <span key="models" class="names">
                {models.map((model) => (
                  <Name key={model} text={model} isCode />
                ))}
              </span>
            ),
          ],
          [words.settings.rpm, limit(limits.requests_per_minute)],
          [words.settings.tpm, limit(limits.tokens_per_minute)],
          [words.settings.concurrent, limit(limits.concurrent_requests)],
          [words.createdAt, <Time key="created" at={row.created_at} />],
          [words.lastUsed, <Time key="used" at={row.last_used_at} form="relative" />],
          [words.firstAddress, <Address key="first" address={row.first_address} />],
          [words.lastAddress, <Address key="last" address={row.last_address} />],
          [words.expires, row.expires_at === null ? words.never : <Time at={row.expires_at} />],
          ...(row.revoked_at === null
            ? []
            : [[words.revokedAt, <Time key="revoked" at={row.revoked_at} />] as const]),
        ]}
      />
    </>
  );
}
