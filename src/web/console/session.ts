import { signal, type ReadonlySignal } from "@preact/signals";
import { createApi, type ApiFailure } from "../api.ts";
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

/** The calls of the console's API. */
export const api = createApi({
  headers: () => ({
    "x-tollgate-console": "1",
    ...(performance.now() - actedAtMs > RECENT_MS ? { "x-tollgate-refresh": "1" } : {}),
  }),
  onFailure: (failure: ApiFailure) => {
    if (failure.status === 401) end();
  },
});

/** Signs in with the token of the address, or with the cookie of an earlier load. Call it once. */
export async function openSession(): Promise<void> {
  const token = takeSecret("token");
  try {
    if (token !== undefined) await api.post("/api/session", { token });
    await api.get("/api/state");
    state.value = "open";
    listen();
  } catch {
    // Also without an answer: the command has ended.
    end();
  }
}

/** Ends the session and the command. */
export async function endSession(): Promise<void> {
  await api.post("/api/session/end", {});
  end();
}

let events: EventSource | undefined;

function listen(): void {
  events = new EventSource("/api/changes");
  events.addEventListener("change", () => (changes.value += 1));
  events.addEventListener("open", () => (lost.value = false));
  // It connects again by itself unless the answer is an error.
  events.addEventListener("error", () => {
    if (events?.readyState === EventSource.CLOSED) end();
    else lost.value = true;
  });
}

function end(): void {
  state.value = "over";
  events?.close();
}
