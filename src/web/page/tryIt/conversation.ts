import { computed, signal, type ReadonlySignal, type Signal } from "@preact/signals";
import type { Receipt } from "../../../contract/account/receipt.ts";
import { ApiFailure, failureFrom, type Api } from "../../api.ts";
import { words } from "../../language.ts";

/** `stopped`: by the reader. `failed` may have a part of the answer. */
export type AnswerState = "waiting" | "streaming" | "done" | "stopped" | "failed";

/** What an answer cost. `none`: the request was refused, so nothing was charged. `unknown`: no receipt came in time. */
export type Charge = Receipt | "pending" | "none" | "unknown";

/** A question and its answer, which grows while it streams. */
export interface Exchange {
  readonly id: number;
  readonly model: string;
  readonly question: string;
  readonly answer: ReadonlySignal<string>;
  /** What the model thinks aloud before it answers, if the provider sends it. */
  readonly reasoning: ReadonlySignal<string>;
  readonly state: ReadonlySignal<AnswerState>;
  readonly failure: ReadonlySignal<ApiFailure | undefined>;
  readonly charge: ReadonlySignal<Charge>;
  /** The id of the request; undefined until the gateway accepts it. */
  readonly requestId: ReadonlySignal<string | undefined>;
}

/** A chat with models of the gateway. */
export interface Conversation {
  readonly exchanges: ReadonlySignal<readonly Exchange[]>;
  readonly isBusy: ReadonlySignal<boolean>;
  /** Sends a question with all that was said before. Does nothing while an answer streams. */
  readonly ask: (model: string, question: string) => void;
  /** Ends the answer that streams. The gateway charges for what the provider had sent. */
  readonly stop: () => void;
  readonly clear: () => void;
  /** Ends all calls, also for receipts. */
  readonly dispose: () => void;
}

interface OpenExchange extends Exchange {
  readonly answer: Signal<string>;
  readonly reasoning: Signal<string>;
  readonly state: Signal<AnswerState>;
  readonly failure: Signal<ApiFailure | undefined>;
  readonly charge: Signal<Charge>;
  readonly requestId: Signal<string | undefined>;
}

/** Milliseconds between the attempts to read a receipt. A stopped request is charged a moment later. */
const RECEIPT_WAITS_MS = [0, 400, 1000, 1500, 3000, 5000, 10_000];

/** `onCharged` is called when a receipt shows what an answer cost. */
export function createConversation(
  api: Api,
  onCharged: () => void,
  wait: (ms: number) => Promise<void> = (ms) => new Promise((resolve) => setTimeout(resolve, ms)),
): Conversation {
  const exchanges = signal<readonly OpenExchange[]>([]);
  const disposed = new AbortController();
  let abort: AbortController | undefined;
  let lastId = 0;

  const stream = async (exchange: OpenExchange, stopped: AbortSignal): Promise<void> => {
    const body = {
      model: exchange.model,
      messages: messagesOf(exchanges.peek()),
      stream: true,
    };
    const onHead = (headers: Headers): void => {
      exchange.requestId.value = headers.get("x-request-id") ?? undefined;
      exchange.state.value = "streaming";
    };
    for await (const event of api.events("/v1/chat/completions", body, stopped, onHead)) {
      if (event.data === "[DONE]") return;
      takeChunk(exchange, event.json() ?? {});
    }
    throw new ApiFailure(0, words.noConnection);
  };

  const settle = async (exchange: OpenExchange): Promise<void> => {
    const id = exchange.requestId.peek();
    if (id === undefined) {
      exchange.charge.value = exchange.state.peek() === "stopped" ? "unknown" : "none";
      return;
    }
    const receipt = await settledReceipt(api, id, wait, disposed.signal);
    exchange.charge.value = receipt ?? "unknown";
    if (receipt) onCharged();
  };

  const answer = async (exchange: OpenExchange, stopped: AbortSignal): Promise<void> => {
    try {
      await stream(exchange, stopped);
      exchange.state.value = "done";
    } catch (error) {
      exchange.state.value = stopped.aborted ? "stopped" : "failed";
      if (!stopped.aborted) exchange.failure.value = failureFrom(error);
    }
    await settle(exchange);
  };

  return {
    exchanges,
    isBusy: computed(() => {
      const state = exchanges.value.at(-1)?.state.value;
      return state === "waiting" || state === "streaming";
    }),
    ask(model, question) {
      const last = exchanges.peek().at(-1)?.state.peek();
      if (last === "waiting" || last === "streaming") return;
      abort = new AbortController();
      const exchange = openExchange(++lastId, model, question);
      exchanges.value = [...exchanges.peek(), exchange];
      void answer(exchange, abort.signal);
    },
    stop: () => abort?.abort(),
    clear() {
      abort?.abort();
      exchanges.value = [];
    },
    dispose() {
      abort?.abort();
      disposed.abort();
    },
  };
}

function openExchange(id: number, model: string, question: string): OpenExchange {
  return {
    id,
    model,
    question,
    answer: signal(""),
    reasoning: signal(""),
    state: signal<AnswerState>("waiting"),
    failure: signal<ApiFailure | undefined>(undefined),
    charge: signal<Charge>("pending"),
    requestId: signal<string | undefined>(undefined),
  };
}

interface Message {
  readonly role: "user" | "assistant";
  readonly content: string;
}

/**
 * What is sent: each question with its answer, and the last question. A question without an answer is left out. A stopped
 * answer may end with half a character, which the gateway refuses. A replacement character is sent for it.
 */
function messagesOf(exchanges: readonly Exchange[]): readonly Message[] {
  return exchanges.flatMap(({ question, answer }, at): readonly Message[] => {
    const asked: Message = { role: "user", content: question };
    if (at === exchanges.length - 1) return [asked];
    const said = answer.peek();
    return said === "" ? [] : [asked, { role: "assistant", content: said.toWellFormed() }];
  });
}

/** The parts of a chunk that are shown: https://platform.openai.com/docs/api-reference/chat-streaming */
interface Chunk {
  readonly choices?: readonly {
    readonly delta?: { readonly content?: unknown; readonly reasoning_content?: unknown };
  }[];
  readonly error?: Readonly<Record<string, unknown>>;
}

/** Throws ApiFailure for an error that came in the stream. */
function takeChunk(exchange: OpenExchange, { choices, error }: Chunk): void {
  const { content, reasoning_content: reasoning } = choices?.[0]?.delta ?? {};
  if (typeof content === "string") exchange.answer.value += content;
  if (typeof reasoning === "string") exchange.reasoning.value += reasoning;
  if (error === undefined) return;
  const { message } = error;
  const shown = typeof message === "string" ? message : words.badAnswer;
  throw new ApiFailure(0, shown, { fields: error });
}

/** The receipt of a request that has ended; undefined if there is none in time. */
async function settledReceipt(
  api: Api,
  id: string,
  wait: (ms: number) => Promise<void>,
  disposed: AbortSignal,
): Promise<Receipt | undefined> {
  const path = `/v1/requests/${encodeURIComponent(id)}`;
  for (const ms of RECEIPT_WAITS_MS) {
    await wait(ms);
    if (disposed.aborted) return undefined;
    try {
      const receipt = await api.get<Receipt>(path, {}, disposed);
      if (receipt.status !== "running") return receipt;
    } catch (error) {
      // A 404 is a request without a record yet.
      const { status, retryAfter = 0 } = failureFrom(error);
      if (status === 401) return undefined;
      await wait(retryAfter * 1000);
    }
  }
  return undefined;
}
