import type { Receipt } from "../../../contract/account/receipt.ts";
import type { Attempt } from "../../../contract/account/receipt.ts";
import { CopyButton } from "../../components/buttons.tsx";
import { Figure, Figures } from "../../components/figures.tsx";
import { Columns, Facts, Panel, ViewHead } from "../../components/frame.tsx";
import { EmptyState, ErrorState, Notice, SkeletonBlock } from "../../components/states.tsx";
import { Table, type Column } from "../../components/table.tsx";
import { Name, visibleText } from "../../components/text.tsx";
import { Count, Duration, Money, Status, Time } from "../../components/values.tsx";
import { createResource, useResource } from "../../resource.ts";
import { ReceiptSum } from "../../receipt/receiptSum.tsx";
import { hrefOf } from "../../router.ts";
import { inWords } from "../failures.ts";
import type { Holding } from "../holding.ts";
import { text } from "../text.ts";

const words = text.receipt;

/** One request: what it used, how its cost came about, and its attempts. */
export function ReceiptView({ holding, id }: { holding: Holding; id: string }) {
  const resource = useResource(
    () =>
      createResource((abort) => {
        // Load again when money has moved: a running request ends, and a refund may come.
        void holding.moves.value;
        return holding.api.get<Receipt>(`/v1/requests/${encodeURIComponent(id)}`, {}, abort);
      }),
    id,
  );
  const receipt = resource.data.value;
  const failure = resource.failure.value;
  return (
    <>
      <ViewHead
        back={{ href: hrefOf(["requests"]), text: text.views.requests }}
        title={
          <>
            {words.title} <Name text={id} isCode />
          </>
        }
        text={receipt && <Time at={receipt.at} />}
        actions={
          <CopyButton text={id} action={words.copyId} label={visibleText(id)} tone="plain" />
        }
      />
      {receipt ? (
        <ReceiptContent receipt={receipt} />
      ) : failure ? (
        <Panel>
          <ErrorState
            failure={inWords(failure)}
            onRetry={resource.reload}
            isRetrying={resource.isLoading.value}
          />
        </Panel>
      ) : (
        <Panel>
          <SkeletonBlock rem={24} />
        </Panel>
      )}
    </>
  );
}

function ReceiptContent({ receipt }: { receipt: Receipt }) {
  return (
    <>
      <Figures>
        <Figure label={words.cost} value={<Money amount={receipt.cost_rub} isExact />} isMain />
        <Figure label={words.status} value={<Status status={receipt.status} />} />
        <Figure label={words.firstByte} value={<Duration ms={receipt.first_byte_ms} />} />
        <Figure label={words.duration} value={<Duration ms={receipt.duration_ms} />} />
      </Figures>
      {receipt.estimated && (
        <Notice tone="info" title={words.estimated}>
          {words.estimatedWhy}
        </Notice>
      )}
      <Columns isWideFirst>
        <ReceiptSum receipt={receipt} />
        <div class="stack">
          <Panel title={words.details}>
            <Facts
              facts={[
                [words.model, <Name key="model" text={receipt.model} />],
                [words.endpoint, words.endpoints[receipt.endpoint]],
                [words.form, receipt.stream ? words.streamed : words.whole],
                [words.key, <code key="key">{receipt.key_id}</code>],
                [words.promptTokens, <Count key="prompt" value={receipt.prompt_tokens} />],
                [words.completionTokens, <Count key="answer" value={receipt.completion_tokens} />],
              ]}
            />
          </Panel>
          <Attempts attempts={receipt.attempts} />
        </div>
      </Columns>
    </>
  );
}

interface NumberedAttempt extends Attempt {
  readonly n: number;
}

const attemptColumns: readonly Column<NumberedAttempt>[] = [
  { id: "n", head: words.attempt, value: ({ n }) => n },
  { id: "outcome", head: words.outcome, value: ({ outcome }) => words.outcomes[outcome] },
  {
    id: "duration",
    head: words.duration,
    kind: "duration",
    value: ({ duration_ms }) => duration_ms,
  },
];

function Attempts({ attempts }: { attempts: readonly Attempt[] }) {
  return (
    <Panel title={words.attempts} text={words.attemptsNote} isFlush>
      <Table
        caption={words.attempts}
        isCaptionHidden
        columns={attemptColumns}
        rows={attempts.map((attempt, at) => ({ ...attempt, n: at + 1 }))}
        keyOf={({ n }) => String(n)}
        narrow="scroll"
        empty={<EmptyState title={words.noAttempts} />}
      />
    </Panel>
  );
}
