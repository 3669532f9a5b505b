import { useSignalEffect } from "@preact/signals";
import type { Account } from "../../contract/account/account.ts";
import { SpanChoice } from "../components/fields.tsx";
import { Figure, Figures, Meter } from "../components/figures.tsx";
import { Columns, Facts, Panel, ViewHead } from "../components/frame.tsx";
import { Notice, StaleNotice } from "../components/states.tsx";
import { Table } from "../components/table.tsx";
import { Name, OutsideLink } from "../components/text.tsx";
import { Money, None, Time } from "../components/values.tsx";
import { formats } from "../language.ts";
import { hrefOf } from "../router.ts";
import { inWords } from "./failures.ts";
import { RECENT_REQUESTS, type Holding } from "./holding.ts";
import { requestTable } from "./requests/requests.tsx";
import { SpendChart } from "./spend.tsx";
import { daysLeft, sumsOf } from "./spending.ts";
import { text } from "./text.ts";
import { VoucherForm } from "./voucher.tsx";

const words = text.overview;
const recentColumns = requestTable.columns.filter(
  ({ id }) => !["cached", "firstByte", "duration"].includes(id),
);
const DAY_MS = 86_400_000;
/** A key that expires sooner is shown with a warning. */
const EXPIRY_WARNING_DAYS = 7;
/** Money that lasts for fewer days is low. */
const LOW_DAYS = 3;

/** What is left, what was spent, and what the key may do. */
export function Overview({ holding }: { holding: Holding }) {
  useSignalEffect(holding.showMoves);
  const account = holding.account.value;
  const failure = holding.accountFailure.value;
  const { recent } = holding;
  return (
    <>
      <ViewHead
        title={<Name text={account.account} />}
        text={<KeyName account={account} />}
        actions={<SpanChoice value={holding.span} />}
      />
      {/* After a 429 the page asks again by itself. */}
      {failure && failure.status !== 429 && (
        <StaleNotice failure={inWords(failure)} onRetry={holding.refresh} />
      )}
      <Warnings holding={holding} />
      <MoneyFigures holding={holding} />
      <Columns isWideFirst>
        <SpendChart holding={holding} />
        <div class="stack">
          <KeyPanel account={account} />
          <Panel title={words.topUp}>
            <VoucherForm holding={holding} />
            {account.contact_url !== null && (
              <p class="contact">
                <OutsideLink href={account.contact_url}>{words.contact}</OutsideLink>
              </p>
            )}
          </Panel>
        </div>
      </Columns>
      <Panel
        title={words.recent}
        actions={<a href={hrefOf(["requests"])}>{words.allRequests}</a>}
        isFlush
      >
        <Table
          {...requestTable}
          caption={words.recent}
          isCaptionHidden
          columns={recentColumns}
          keyOf={({ id }) => id}
          rows={recent.data.value}
          failure={recent.failure.value}
          isLoading={recent.isLoading.value}
          onRetry={recent.reload}
          rowsExpected={RECENT_REQUESTS}
        />
      </Panel>
    </>
  );
}

function KeyName({ account: { key } }: { account: Account }) {
  return (
    <>
      {text.key} <code>{key.prefix}…</code>
      {key.label !== null && (
        <>
          {" · "}
          <Name text={key.label} />
        </>
      )}
    </>
  );
}

function Warnings({ holding }: { holding: Holding }) {
  const { contact_url, key, available_rub } = holding.account.value;
  const spending = holding.spending.data.value;
  const days = spending && daysLeft(available_rub, spending);
  const isEmpty = !(Number(available_rub) > 0);
  const isLow = isEmpty || (days !== undefined && days < LOW_DAYS);
  const expiresInMs = key.expires_at === null ? undefined : Date.parse(key.expires_at) - Date.now();
  const isExpiring = expiresInMs !== undefined && expiresInMs < EXPIRY_WARNING_DAYS * DAY_MS;
  const isSpent = key.budget_rub !== null && Number(key.spent_rub) >= Number(key.budget_rub);
  return (
    <>
      {isLow && (
        <Notice
          tone="warning"
          title={isEmpty ? words.empty : words.low}
          action={
            contact_url !== null && <OutsideLink href={contact_url}>{words.contact}</OutsideLink>
          }
        >
          {isEmpty || days === undefined ? words.emptyWhy : words.lowWhy(days)}
        </Notice>
      )}
      {isSpent && (
        <Notice tone="warning" title={words.budgetSpent}>
          {words.budgetSpentWhy}
        </Notice>
      )}
      {isExpiring && (
        <Notice tone="warning" title={words.expiring}>
          <Time at={key.expires_at} /> · <Time at={key.expires_at} form="relative" />
        </Notice>
      )}
    </>
  );
}

function MoneyFigures({ holding }: { holding: Holding }) {
  const { available_rub, balance_rub, held_rub } = holding.account.value;
  const spending = holding.spending.data.value;
  const days = spending && daysLeft(available_rub, spending);
  const spent = spending ? (
    <Money amount={sumsOf("", spending.rows).costRub} />
  ) : (
    holding.spending.failure.value && <None />
  );
  return (
    <Figures>
      <Figure
        label={words.balance}
        value={<Money amount={balance_rub} />}
        note={words.balanceNote}
        isMain
      />
      <Figure
        label={words.available}
        value={<Money amount={available_rub} />}
        note={days === undefined ? words.availableNote : words.lasts(days)}
        isMain
      />
      <Figure label={words.held} value={<Money amount={held_rub} />} note={words.heldNote} isMain />
      <Figure
        label={words.spent(spending?.span ?? holding.span.value)}
        value={spent}
        note={words.spentNote}
        isMain
      />
    </Figures>
  );
}

function KeyPanel({ account: { key } }: { account: Account }) {
  const { limits, limits_remaining: left } = key;
  const limited = [
    [words.limits.requests, limits.requests_per_minute, left.requests],
    [words.limits.tokens, limits.tokens_per_minute, left.tokens],
    [words.limits.concurrent, limits.concurrent_requests, left.concurrent_requests],
  ] as const;
  return (
    <Panel title={words.thisKey}>
      <div class="stack meters">
        {key.budget_rub !== null && (
          <Meter
            label={words.budget}
            used={key.spent_rub}
            limit={key.budget_rub}
            usedText={formats.money(key.spent_rub)}
            limitText={formats.money(key.budget_rub)}
          />
        )}
        {limited.map(
          ([label, limit, remaining]) =>
            remaining !== null && (
              <Meter
                key={label}
                label={label}
                used={Math.max(limit - remaining, 0)}
                limit={limit}
                usedText={words.left(formats.count(remaining))}
                limitText={formats.count(limit)}
              />
            ),
        )}
      </div>
      <Facts
        facts={[
          ...(key.budget_rub === null
            ? [
                [words.budget, words.noBudget] as const,
                [words.spentByKey, <Money key="spent" amount={key.spent_rub} />] as const,
              ]
            : []),
          ...limited.flatMap(([label, , remaining]) =>
            remaining === null ? [[label, words.noLimit] as const] : [],
          ),
          [
            words.expires,
            key.expires_at === null ? words.never : <Time at={key.expires_at} form="date" />,
          ],
        ]}
      />
    </Panel>
  );
}
