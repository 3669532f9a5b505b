import { useSignal } from "@preact/signals";
import type { RequestDetailDocument } from "../../../contract/operator/request.ts";
import { Button, CopyButton } from "../../components/buttons.tsx";
import { Figure, Figures } from "../../components/figures.tsx";
import { Columns, Facts, Panel, ViewHead } from "../../components/frame.tsx";
import {
  EmptyState,
  ErrorState,
  Notice,
  Skeleton,
  SkeletonBlock,
  StaleNotice,
} from "../../components/states.tsx";
import { Name, visibleText } from "../../components/text.tsx";
import { Count, Duration, Money, None, Status, Tag, Time } from "../../components/values.tsx";
import { createResource, useResource } from "../../resource.ts";
import { hrefOf } from "../../router.ts";
import { ReceiptSum } from "../../receipt/receiptSum.tsx";
import { minus } from "../amounts.ts";
import { followStore } from "../live.ts";
import { call } from "../call.ts";
import { text } from "../text.ts";
import { Refund } from "./refund.tsx";

const words = text.request;

/** One request: what it cost and why, its attempts, and the refund of its charge. */
export function Request({ id }: { id: string }) {
  const isRefunding = useSignal(false);
  const resource = useResource(
    () => followStore(createResource((abort) => call("GET /api/requests/:id", { id }, abort))),
    id,
  );
  const request = resource.data.value;
  const failure = resource.failure.value;
  const left = request && minus(request.cost_rub, request.refunded_rub);
  return (
    <>
      <ViewHead
        back={{ href: hrefOf(["requests"]), text: text.views.requests }}
        title={
          <>
            {words.title} <Name text={id} isCode />
          </>
        }
        text={request ? <Time at={request.at} /> : !failure && <Skeleton characters={18} />}
        actions={
          <>
            <CopyButton text={id} action={words.copyId} label={visibleText(id)} tone="plain" />
            <Button
              tone="primary"
              isDisabled={left === undefined || left === "0"}
              onClick={() => (isRefunding.value = true)}
            >
              {words.refund.action}
            </Button>
          </>
        }
      />
      {request && failure && <StaleNotice failure={failure} onRetry={resource.reload} />}
      {request ? (
        <Content request={request} />
      ) : (
        <Panel>
          {failure ? (
            <ErrorState
              failure={failure}
              onRetry={resource.reload}
              isRetrying={resource.isLoading.value}
            />
          ) : (
            <SkeletonBlock rem={28} />
          )}
        </Panel>
      )}
      {request && isRefunding.value && (
        <Refund
          request={request}
          onClose={() => (isRefunding.value = false)}
          onDone={resource.reload}
        />
      )}
    </>
  );
}

function Content({ request }: { request: RequestDetailDocument }) {
  const { cost_rub: cost, refunded_rub: refunded, operator_cost_rub: operatorCost } = request;
  const net = minus(cost, refunded);
  const margin = operatorCost === null || net === undefined ? undefined : minus(net, operatorCost);
  return (
    <>
      <Figures>
        <Figure
          isMain
          label={words.cost}
          value={<Money amount={cost} isExact />}
          note={
            refunded === "0" ? undefined : (
              <>
                {words.refunded} <Money amount={refunded} isExact />
              </>
            )
          }
        />
        <Figure
          label={text.overview.operatorCost}
          value={<Money amount={operatorCost} isExact />}
        />
        <Figure label={text.overview.margin} value={<Money amount={margin} isExact />} />
        <Figure label={text.requests.status} value={<Status status={request.status} />} />
        <Figure label={text.requests.firstByte} value={<Duration ms={request.first_byte_ms} />} />
        <Figure label={text.requests.duration} value={<Duration ms={request.duration_ms} />} />
      </Figures>
      {request.estimated && (
        <Notice tone="warning" title={words.estimated}>
          {words.estimatedWhy}
        </Notice>
      )}
      {request.write_off_rub !== "0" && (
        <Notice
          tone="warning"
          title={
            <>
              {words.writtenOff} <Money amount={request.write_off_rub} isExact />
            </>
          }
        >
          {words.writtenOffWhy}
        </Notice>
      )}
      <Columns isWideFirst>
        <div class="stack">
          <Attempts request={request} />
          <ReceiptSum receipt={request} />
        </div>
        <Details request={request} />
      </Columns>
    </>
  );
}

function Details({ request }: { request: RequestDetailDocument }) {
  return (
    <Panel title={words.details}>
      <Facts
        facts={[
          [
            text.requests.account,
            <a key="account" href={hrefOf(["accounts", request.account])}>
              <Name text={request.account} />
            </a>,
          ],
          [
            text.requests.key,
            <a key="key" href={hrefOf(["keys", request.key_id])}>
              <Name text={request.key_id} isCode />
            </a>,
          ],
          [
            text.requests.model,
            <a key="model" href={hrefOf(["requests"], { model: request.model })}>
              <Name text={request.model} />
            </a>,
          ],
          [
            text.requests.provider,
            request.provider === null ? (
              <None />
            ) : (
              <a key="provider" href={hrefOf(["requests"], { provider: request.provider })}>
                <Name text={request.provider} />
              </a>
            ),
          ],
          [words.endpoint, request.endpoint],
          [words.form, request.stream ? words.streamed : words.whole],
          [words.hold, <Money key="hold" amount={request.hold_rub} isExact />],
          [words.promptTokens, <Count key="prompt" value={request.prompt_tokens} />],
          [words.cachedTokens, <Count key="cached" value={request.cached_tokens} />],
          [words.completionTokens, <Count key="answer" value={request.completion_tokens} />],
        ]}
      />
    </Panel>
  );
}

/** The attempts of a request one after the other, each as a bar as long as it took. */
function Attempts({ request }: { request: RequestDetailDocument }) {
  const { attempts } = request;
  const tookMs = attempts.reduce((sum, attempt) => sum + attempt.duration_ms, 0);
  const spanMs = Math.max(tookMs, request.duration_ms ?? 0, 1);
  let startMs = 0;
  return (
    <Panel title={words.attempts} text={words.attemptsNote}>
      {attempts.length === 0 ? (
        <EmptyState title={words.noAttempts} />
      ) : (
        <ol class="stack timeline">
          {attempts.map((attempt) => {
            const start = (startMs / spanMs) * 100;
            const width = (attempt.duration_ms / spanMs) * 100;
            startMs += attempt.duration_ms;
            const isOk = attempt.outcome === "ok";
            return (
              <li key={attempt.n}>
                <span class="muted">{attempt.n}</span>
                <span class="timeline-provider">
                  <Name text={attempt.provider} />
                </span>
                <Tag tone={isOk ? "good" : "bad"}>
                  <Name text={isOk ? words.answered : attempt.outcome} />
                </Tag>
                <span>
                  <Duration ms={attempt.duration_ms} />
                </span>
                <span class="timeline-track" aria-hidden="true">
                  <span
                    class={isOk ? undefined : "timeline-failed"}
                    style={{ marginInlineStart: `${start}%`, inlineSize: `${width}%` }}
                  />
                </span>
              </li>
            );
          })}
        </ol>
      )}
    </Panel>
  );
}
