import { useSignal, useSignalEffect, type Signal } from "@preact/signals";
import { useEffect, useLayoutEffect, useRef } from "preact/hooks";
import type { Model } from "../../../contract/models.ts";
import { Button, CopyButton } from "../../components/buttons.tsx";
import { SelectField, TextArea } from "../../components/fields.tsx";
import { Panel, ViewHead } from "../../components/frame.tsx";
import {
  EmptyState,
  ErrorState,
  FailureText,
  Notice,
  SkeletonBlock,
} from "../../components/states.tsx";
import { FreeText, visibleText } from "../../components/text.tsx";
import { announce } from "../../toasts.ts";
import { Count, Money } from "../../components/values.tsx";
import { formats } from "../../language.ts";
import { priceOf } from "../../receipt/multiplication.ts";
import { hrefOf, place } from "../../router.ts";
import { inWords } from "../failures.ts";
import type { Holding } from "../holding.ts";
import { optionText, text } from "../text.ts";
import type { Exchange } from "./conversation.ts";

const words = text.tryIt;

/** A chat with a model, to see an answer and what it costs. */
export function TryIt({ holding }: { holding: Holding }) {
  const models = holding.models();
  const chats = models.data.value?.filter(({ endpoints }) => endpoints.includes("chat"));
  const failure = models.failure.value;
  return (
    <>
      <ViewHead title={text.views.try} text={words.intro} />
      {chats === undefined && failure && (
        <Panel>
          <ErrorState
            failure={inWords(failure)}
            onRetry={models.reload}
            isRetrying={models.isLoading.value}
          />
        </Panel>
      )}
      {chats === undefined && !failure && (
        <Panel>
          <SkeletonBlock rem={12} />
        </Panel>
      )}
      {chats?.length === 0 && (
        <Panel>
          <EmptyState title={words.noModels} />
        </Panel>
      )}
      {chats?.[0] && <Chat holding={holding} models={chats} first={chats[0]} />}
    </>
  );
}

interface ChatProps {
  readonly holding: Holding;
  readonly models: readonly Model[];
  readonly first: Model;
}

function Chat({ holding, models, first }: ChatProps) {
  const { conversation } = holding;
  const asked = place.peek().query["model"];
  const last = conversation.exchanges.peek().at(-1)?.model;
  const known = (id: string | undefined) => models.find((model) => model.id === id)?.id;
  const model = useSignal(known(asked) ?? known(last) ?? first.id);
  const question = useSignal("");
  const exchanges = conversation.exchanges.value;
  const scroll = usePinnedScroll();
  const chat = useRef<HTMLDivElement>(null);
  // A button that disappears must not take the focus with it. On a phone the keyboard would cover the conversation.
  const focusField = (): void => {
    if (matchMedia("(pointer: fine)").matches)
      chat.current?.querySelector("textarea")?.focus({ preventScroll: true });
  };
  // The frame gives the focus to the content of a new view first.
  useEffect(() => {
    const timer = setTimeout(focusField);
    return () => clearTimeout(timer);
  }, []);
  useSignalEffect(() => {
    const { state, charge } = conversation.exchanges.value.at(-1) ?? {};
    if (state?.value === "done" && typeof charge?.value === "object")
      announce(words.answered(formats.money(charge.value.cost_rub, "exact")));
  });
  const send = (): void => {
    const given = question.value.trim();
    if (given === "" || conversation.isBusy.value) return;
    scroll.pin();
    conversation.ask(model.value, given);
    question.value = "";
    focusField();
  };
  const clear = (): void => {
    conversation.clear();
    focusField();
  };
  const stop = (): void => {
    conversation.stop();
    focusField();
  };
  return (
    <div ref={chat} class="chat">
      <ChatHead
        model={model}
        models={models}
        onClear={exchanges.length === 0 ? undefined : clear}
      />
      {exchanges.length === 0 ? (
        <EmptyState title={words.empty}>{words.emptyHint}</EmptyState>
      ) : (
        <ol class="stack exchanges" aria-label={words.conversation}>
          {exchanges.map((exchange) => (
            <ExchangeItem key={exchange.id} exchange={exchange} onGrow={scroll.follow} />
          ))}
        </ol>
      )}
      <Composer
        question={question}
        isBusy={conversation.isBusy.value}
        onSend={send}
        onStop={stop}
      />
    </div>
  );
}

interface ChatHeadProps {
  readonly model: Signal<string>;
  readonly models: readonly Model[];
  readonly onClear: (() => void) | undefined;
}

/** The choice of the model, with its prices. */
function ChatHead({ model, models, onClear }: ChatHeadProps) {
  const chosen = models.find(({ id }) => id === model.value);
  return (
    <div class="split chat-head">
      <SelectField
        label={words.model}
        value={model}
        options={models.map(({ id }) => ({ value: id, text: optionText(id) }))}
        hint={
          chosen &&
          words.prices(
            formats.money(priceOf(chosen.rub_input_per_1m), 0),
            formats.money(priceOf(chosen.rub_output_per_1m), 0),
          )
        }
      />
      {onClear && <Button onClick={onClear}>{words.clear}</Button>}
    </div>
  );
}

interface ComposerProps {
  readonly question: Signal<string>;
  readonly isBusy: boolean;
  readonly onSend: () => void;
  readonly onStop: () => void;
}

/** The field of the question. It stays at the end of the window. */
function Composer({ question, isBusy, onSend, onStop }: ComposerProps) {
  return (
    <form
      class="box stack composer"
      onSubmit={(event) => {
        event.preventDefault();
        onSend();
      }}
    >
      <TextArea
        label={words.message}
        value={question}
        rows={2}
        hint={words.keys}
        onEnter={onSend}
      />
      {isBusy ? (
        <Button key="stop" onClick={onStop}>
          {words.stop}
        </Button>
      ) : (
        <Button key="send" type="submit" tone="primary" isDisabled={question.value.trim() === ""}>
          {words.send}
        </Button>
      )}
    </form>
  );
}

function ExchangeItem({ exchange, onGrow }: { exchange: Exchange; onGrow: () => void }) {
  const { question, model } = exchange;
  const answer = exchange.answer.value;
  const reasoning = exchange.reasoning.value;
  const state = exchange.state.value;
  const failure = exchange.failure.value;
  const charge = exchange.charge.value;
  const isOpen = state === "waiting" || state === "streaming";
  useLayoutEffect(onGrow, [answer, reasoning, state, charge]);
  return (
    <li class="stack exchange">
      <div class="question">
        <span class="unseen">{words.you}: </span>
        <FreeText text={question} />
      </div>
      <div class="stack answer" aria-busy={isOpen}>
        <div class="split answer-head">
          <bdi class="clip code">{visibleText(model)}</bdi>
          {answer !== "" && !isOpen && <CopyButton text={answer} label={words.copyAnswer} />}
        </div>
        {reasoning !== "" && (
          <details>
            <summary>{words.reasoning}</summary>
            <FreeText text={reasoning} />
          </details>
        )}
        {answer !== "" && (
          <div class="answer-text">
            <FreeText text={answer} />
          </div>
        )}
        {isOpen && <span class="muted answer-wait">{words.waiting}</span>}
        {state === "done" && answer === "" && <p class="muted">{words.noText}</p>}
        {state === "stopped" && <p class="muted">{words.stopped}</p>}
        {failure && (
          <Notice tone="failure" title={words.failed}>
            <FailureText failure={inWords(failure)} />
          </Notice>
        )}
        {!isOpen && <ChargeLine exchange={exchange} />}
      </div>
    </li>
  );
}

/** What an answer cost, as it was charged. */
function ChargeLine({ exchange }: { exchange: Exchange }) {
  const charge = exchange.charge.value;
  const id = exchange.requestId.value;
  if (charge === "none") return <p class="row hint charge">{words.notCharged}</p>;
  const link = id !== undefined && <a href={hrefOf(["requests", id])}>{text.receipt.title}</a>;
  if (charge === "pending" || charge === "unknown") {
    return (
      <p class="row hint charge">
        {words[charge]} {charge === "unknown" && link}
      </p>
    );
  }
  const { prompt_tokens, cached_tokens, completion_tokens } = charge;
  return (
    <p class="row hint charge">
      <strong>
        <Money amount={charge.cost_rub} isExact />
      </strong>
      <span>
        {words.promptTokens} <Count value={prompt_tokens} />
        {cached_tokens > 0 && (
          <>
            {" "}
            ({words.cached} <Count value={cached_tokens} />)
          </>
        )}
      </span>
      <span>
        {words.completionTokens} <Count value={completion_tokens} />
      </span>
      {charge.estimated && <span>{words.estimated}</span>}
      {link}
    </p>
  );
}

/** How near to its end the page is, in CSS pixels, for it to follow what grows there. */
const END_PX = 48;

/** Keeps the end of the page visible while it grows, unless the reader scrolled up. */
function usePinnedScroll(): { pin: () => void; follow: () => void } {
  const isPinned = useRef(true);
  useEffect(() => {
    const onScroll = (): void => {
      const { scrollHeight } = document.documentElement;
      isPinned.current = scrollY + innerHeight >= scrollHeight - END_PX;
    };
    addEventListener("scroll", onScroll, { passive: true });
    return () => removeEventListener("scroll", onScroll);
  }, []);
  return {
    pin: () => (isPinned.current = true),
    follow() {
      if (isPinned.current) scrollTo(0, document.documentElement.scrollHeight);
    },
  };
}
