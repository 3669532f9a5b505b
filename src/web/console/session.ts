import { signal, type ReadonlySignal } from "@preact/signals";
import type { SessionAnswer } from "../../contract/operator/consoleState.ts";
import { ApiFailure, createApi } from "../api.ts";
import { takeSecret } from "../router.ts";

/** `opening`: the token is being exchanged. `over`: this address is not signed in, or the session has ended. */
export type SessionState = "opening" | "open" | "over";

const state = signal<SessionState>("opening");
const changes = signal(0);
const lost = signal(false);

/** What the page shows: the views, or that the session is over. */
export const sessionState: ReadonlySignal<SessionState> = state;

/** Grows after each second in which the store was changed. A resource that reads it loads again then. */
export const storeChanges: ReadonlySignal<number> = changes;

/** True while nothing answers: the command has ended, or the tunnel to it is cut. The page keeps trying. */
export const isLost: ReadonlySignal<boolean> = lost;

/** A reload without a recent act of the reader must not keep the session open. */
const RECENT_MS = 5000;
let actedAtMs = performance.now();
for (const act of ["pointerdown", "keydown"])
  addEventListener(act, () => (actedAtMs = performance.now()));

/**
 * Where the browser keeps the page's secret, for all tabs of this address. Pages at other ports cannot read it, and it is
 * worthless once the console has ended.
 */
const STORED = "tollgate-console";

/** The calls of the console's API. */
export const api = createApi({
  headers: () => ({
    "x-tollgate-console": localStorage.getItem(STORED) ?? "",
    ...(performance.now() - actedAtMs > RECENT_MS ? { "x-tollgate-refresh": "1" } : {}),
  }),
  onFailure: (failure: ApiFailure) => {
    if (failure.status !== 401) return;
    localStorage.removeItem(STORED);
    end();
  },
});

/** Signs in with the token of the address, or as an earlier load of the page did. */
export async function openSession(): Promise<void> {
  const token = takeSecret("token");
  try {
    if (token !== undefined && !(await isSignedIn())) await exchange(token);
    await api.get("/api/state");
    state.value = "open";
    void listen();
  } catch {
    // Also without an answer: the command has ended.
    end();
  }
}

// A new address that is opened in a tab where the page is open already does not load the page again.
addEventListener("hashchange", () => {
  if (location.hash.startsWith("#token=")) void openSession();
});

/**
 * A browser that is signed in exchanges no token: any site can open this address with wrong ones, and ten of them end the
 * console.
 */
async function isSignedIn(): Promise<boolean> {
  const stored = localStorage.getItem(STORED);
  if (stored === null) return false;
  const calls = createApi({ headers: () => ({ "x-tollgate-console": stored }) });
  return calls.get("/api/state").then(
    () => true,
    () => false,
  );
}

/** A token that is refused changes nothing: this browser may have used it before. */
async function exchange(token: string): Promise<void> {
  const calls = createApi({ headers: () => ({ "x-tollgate-console": "1" }) });
  try {
    const answer = await calls.post<SessionAnswer>("/api/session", { token });
    localStorage.setItem(STORED, answer.page_secret);
  } catch (error) {
    if (!(error instanceof ApiFailure) || error.status !== 401) throw error;
  }
}

/** Ends the session and the command. */
export async function endSession(): Promise<void> {
  await api.post("/api/session/end", {});
  localStorage.removeItem(STORED);
  end();
}

let listening: AbortController | undefined;
/** The pause before the page connects again. */
const RETRY_MS = 3000;

/** Hears of changes until the session is over. EventSource could not send the page's secret. */
async function listen(): Promise<void> {
  listening?.abort();
  const { signal: stopped } = (listening = new AbortController());
  while (!stopped.aborted) {
    try {
      const opened = (): void => void (lost.value = false);
      for await (const { event } of api.events("/api/changes", undefined, stopped, opened))
        if (event === "change") changes.value += 1;
    } catch {
      // A 401 has ended the session. Anything else may pass.
    }
    if (stopped.aborted) return;
    lost.value = true;
    await new Promise((resolve) => setTimeout(resolve, RETRY_MS));
  }
}

function end(): void {
  state.value = "over";
  listening?.abort();
}
