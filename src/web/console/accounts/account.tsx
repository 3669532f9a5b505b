import { useSignal } from "@preact/signals";
import type { AccountDetail } from "../../../contract/operator/accountDetail.ts";
import { StackedBars } from "../../charts/chart.tsx";
import { Button } from "../../components/buttons.tsx";
import { SpanChoice } from "../../components/fields.tsx";
import { Change, Figure, Figures } from "../../components/figures.tsx";
import { Panel, ViewHead } from "../../components/frame.tsx";
import { ErrorState, Skeleton, StaleNotice } from "../../components/states.tsx";
import { Table } from "../../components/table.tsx";
import { Tabs } from "../../components/tabs.tsx";
import { Name } from "../../components/text.tsx";
import { Count, Money, Time } from "../../components/values.tsx";
import { createResource, useResource } from "../../resource.ts";
import { hrefOf, useSetting } from "../../router.ts";
import { CreateKey } from "../keys/keyDialogs.tsx";
import { keyTable } from "../keys/keyTable.tsx";
import { followStore } from "../live.ts";
import { RequestsOf } from "../requests/requests.tsx";
import { call } from "../call.ts";
import { text } from "../text.ts";
import { AccountState } from "./accountState.tsx";
import { ChangeAccount, type AccountChange } from "./accountDialogs.tsx";
import { Ledger } from "./ledger.tsx";

const words = text.account;

/** One account: what it has and used, its ledger, keys and requests, and what the operator changes. */
export function Account({ name }: { name: string }) {
  const span = useSetting("span", ["30d", "24h", "7d", "90d"]);
  const tab = useSetting("tab", ["ledger", "keys", "requests"]);
  const dialog = useSignal<AccountChange | "key" | undefined>(undefined);
  const report = useResource(
    () =>
      followStore(
        createResource((abort) =>
          call("GET /api/accounts/:account", { account: name, span: span.value }, abort),
        ),
      ),
    name,
  );
  const data = report.data.value;
  const failure = report.failure.value;
  const account = data?.account;
  const close = (): void => {
    dialog.value = undefined;
  };
  const action = (change: AccountChange, tone: "primary" | "plain" = "plain") => (
    <Button tone={tone} isDisabled={account === undefined} onClick={() => (dialog.value = change)}>
      {words.actions[change]}
    </Button>
  );
  return (
    <>
      <ViewHead
        back={{ href: hrefOf(["accounts"]), text: text.views.accounts }}
        title={<Name text={name} />}
        text={
          account ? (
            <>
              <AccountState isDisabled={account.disabled} /> · {words.since}{" "}
              <Time at={account.created_at} form="date" />
            </>
          ) : (
            !failure && <Skeleton characters={20} />
          )
        }
        actions={
          <>
            {action("credit", "primary")}
            {action("debit")}
            {action("overdraft")}
            {action("plan")}
            {action(account?.disabled === true ? "enable" : "disable")}
          </>
        }
      />
      {failure && data && <StaleNotice failure={failure} onRetry={report.reload} />}
      {failure && !data ? (
        <Panel>
          <ErrorState
            failure={failure}
            onRetry={report.reload}
            isRetrying={report.isLoading.value}
          />
        </Panel>
      ) : (
        <>
          <Totals report={data} />
          <StackedBars
            caption={words.use}
            times={data?.times}
            by={data?.step ?? "day"}
            kind="money"
            series={(data?.series.models ?? []).map(({ model, charged_rub }) => ({
              name: model ?? text.overview.otherModels,
              values: charged_rub,
            }))}
            isLoading={report.isLoading.value}
            actions={<SpanChoice value={span} />}
          />
          <Tabs
            label={words.tabs.label}
            value={tab}
            tabs={[
              {
                id: "ledger",
                text: words.tabs.ledger,
                content: () => <Ledger account={name} />,
              },
              {
                id: "keys",
                text: words.tabs.keys,
                content: () => (
                  <Panel
                    isFlush
                    title={words.tabs.keys}
                    actions={
                      <Button size="small" onClick={() => (dialog.value = "key")}>
                        {text.keys.create}
                      </Button>
                    }
                  >
                    <Table
                      {...keyTable}
                      isCaptionHidden
                      columns={keyTable.columns.filter(({ id }) => id !== "account")}
                      rows={data?.keys}
                      keyOf={({ id }) => id}
                      canCopyCsv
                    />
                  </Panel>
                ),
              },
              {
                id: "requests",
                text: words.tabs.requests,
                content: () => (
                  <RequestsOf
                    title={words.tabs.requests}
                    of={{ account: name }}
                    hidden={["account"]}
                  />
                ),
              },
            ]}
          />
        </>
      )}
      {dialog.value === "key" && <CreateKey account={name} onClose={close} />}
      {account && dialog.value !== undefined && dialog.value !== "key" && (
        <ChangeAccount
          key={dialog.value}
          change={dialog.value}
          account={account}
          onClose={close}
          onDone={report.reload}
        />
      )}
    </>
  );
}

function Totals({ report }: { report: AccountDetail | undefined }) {
  const { account, now, before, span } = report ?? {};
  return (
    <Figures>
      <Figure
        isMain
        label={text.accounts.available}
        value={account && <Money amount={account.available_rub} />}
        change={null}
        note={account && words.availableNote}
      />
      <Figure
        label={text.accounts.balance}
        value={account && <Money amount={account.balance_rub} />}
      />
      <Figure label={text.accounts.held} value={account && <Money amount={account.held_rub} />} />
      <Figure
        label={text.accounts.overdraft}
        value={account && <Money amount={account.overdraft_rub} />}
        note={
          account === undefined || account.plan === null ? undefined : (
            <>
              {text.accounts.plan}: <Name text={account.plan} />
            </>
          )
        }
      />
      <Figure
        label={span === undefined ? words.charged : words.chargedIn(span)}
        value={now && <Money amount={now.charged_rub} />}
        change={now && before ? <Change now={now.charged_rub} before={before.charged_rub} /> : null}
      />
      <Figure
        label={text.overview.margin}
        value={now && <Money amount={now.margin_rub} />}
        change={
          now && before ? (
            <Change now={now.margin_rub} before={before.margin_rub} good="up" />
          ) : null
        }
      />
      <Figure
        label={text.overview.requests}
        value={now && <Count value={now.requests} />}
        change={now && before ? <Change now={now.requests} before={before.requests} /> : null}
        note={now && now.failed > 0 ? words.failed(now.failed) : undefined}
      />
    </Figures>
  );
}
