import { computed, effect, signal, type ReadonlySignal, type Signal } from "@preact/signals";
import type { Account } from "../../contract/account/account.ts";
import type { Receipt } from "../../contract/account/receipt.ts";
import type { RequestList } from "../../contract/account/requestList.ts";
import type { UsageReport } from "../../contract/account/usageReport.ts";
import type { Model, ModelList } from "../../contract/models.ts";
import { ApiFailure, type Api } from "../api.ts";
import type { SpanName } from "../components/fields.tsx";
import { createResource, type Resource } from "../resource.ts";
import { inWords } from "./failures.ts";
import { createConversation, type Conversation } from "./tryIt/conversation.ts";
import { spendingOf, spendingQuery, type Spending, type Unit } from "./spending.ts";

/** What the views of an opened page share. It is loaded once, and again when money has moved. */
export interface Holding {
  readonly api: Api;
  readonly account: ReadonlySignal<Account>;
  /** Why the account could not be loaded again. */
  readonly accountFailure: ReadonlySignal<ApiFailure | undefined>;
  /** Asks for the account now. */
  readonly refresh: () => void;
  readonly spending: Resource<Spending>;
  readonly span: Signal<SpanName>;
  readonly unit: Signal<Unit>;
  /** The last few requests. */
  readonly recent: Resource<readonly Receipt[]>;
  /** The models that the key may use. They load when they are first asked for. */
  models(): Resource<readonly Model[]>;
  /** The chat of the view "Try it". It is kept in memory only. */
  readonly conversation: Conversation;
  /** Grows when the balance or what the key spent has changed. */
  readonly moves: ReadonlySignal<number>;
  /** Loads `spending` and `recent` again if money has moved since. A view that shows them calls it in an effect. */
  readonly showMoves: () => void;
  readonly stop: () => void;
}

/** Rows of `recent`. */
export const RECENT_REQUESTS = 6;
/** How often the account is loaded again while the page is visible. Each call counts for the key's rate. */
const FRESH_MS = 20_000;

/** Loads what the page shows of a key. `first` is the account that the login has read. */
export function createHolding(api: Api, first: Account): Holding {
  let known: Account | undefined = first;
  const loaded = createResource(async (abort) => {
    const seed = known;
    known = undefined;
    return seed ?? (await api.get<Account>("/v1/account", {}, abort));
  });
  const moves = movesOf(first, loaded.data);
  const shownMoves = signal(0);
  const span = signal<SpanName>("30d");
  const unit = signal<Unit>("roubles");
  const spending = createResource(async (abort) => {
    void shownMoves.value;
    const chosen = span.value;
    const report = await api.get<UsageReport>("/v1/usage", spendingQuery(chosen), abort);
    return spendingOf(report, chosen, Date.now());
  });
  const recent = createResource(async (abort) => {
    void shownMoves.value;
    return (await requestPage(api, { limit: RECENT_REQUESTS }, abort)).data;
  });
  const conversation = createConversation(api, loaded.reload);
  let models: Resource<readonly Model[]> | undefined;
  const stopFresh = keepFresh(loaded);
  return {
    api,
    account: computed(() => loaded.data.value ?? first),
    accountFailure: loaded.failure,
    refresh: loaded.reload,
    spending,
    span,
    unit,
    recent,
    models() {
      models ??= createResource(
        async (abort) => (await api.get<ModelList>("/v1/models", {}, abort)).data,
      );
      return models;
    },
    conversation,
    moves: moves.changes,
    showMoves: () => (shownMoves.value = moves.changes.value),
    stop() {
      conversation.dispose();
      stopFresh();
      moves.stop();
      for (const resource of [loaded, spending, recent, models]) resource?.stop();
    },
  };
}

/** One page of the account's requests, newest first. It is empty only at the end of the list. A failure is in words. */
export async function requestPage(
  api: Api,
  query: { limit: number; before?: string; model?: string; status?: string },
  abort: AbortSignal,
): Promise<RequestList> {
  for (let before = query.before; ;) {
    const given = before === undefined ? query : { ...query, before };
    const page = await api
      .get<RequestList>("/v1/requests", given, abort)
      .catch((error: unknown) => {
        throw error instanceof ApiFailure ? inWords(error) : error;
      });
    if (page.data.length > 0 || page.next === null) return page;
    before = page.next;
  }
}

function movesOf(
  first: Account,
  loaded: ReadonlySignal<Account | undefined>,
): { changes: ReadonlySignal<number>; stop: () => void } {
  const changes = signal(0);
  const moneyOf = ({ balance_rub, key }: Account): string => `${balance_rub} ${key.spent_rub}`;
  let money = moneyOf(first);
  const stop = effect(() => {
    const now = loaded.value;
    if (now === undefined || moneyOf(now) === money) return;
    money = moneyOf(now);
    changes.value = changes.peek() + 1;
  });
  return { changes, stop };
}

/** Loads the account again at times while the page is visible, and when it becomes visible. After a 429 it waits for the time of `retry-after`. */
function keepFresh(account: Resource<Account>): () => void {
  let timer: ReturnType<typeof setTimeout> | undefined;
  let dueMs = Date.now() + FRESH_MS;
  const plan = (): void => {
    clearTimeout(timer);
    if (document.visibilityState !== "visible") return;
    timer = setTimeout(account.reload, Math.max(dueMs - Date.now(), 0));
  };
  const stopEffect = effect(() => {
    if (account.isLoading.value) return;
    const waitMs = (account.failure.value?.retryAfter ?? 0) * 1000;
    dueMs = Date.now() + Math.max(FRESH_MS, waitMs);
    plan();
  });
  const onVisible = (): void => {
    // After a 429 its `retry-after` counts. Otherwise a reader who comes back sees the present state.
    if (account.failure.peek()?.retryAfter === undefined) dueMs = 0;
    plan();
  };
  document.addEventListener("visibilitychange", onVisible);
  return () => {
    clearTimeout(timer);
    stopEffect();
    document.removeEventListener("visibilitychange", onVisible);
  };
}
