import { computed, signal, type ReadonlySignal } from "@preact/signals";
import type { Account } from "../../contract/account/account.ts";
import { createApi, failureFrom, type ApiFailure } from "../api.ts";
import { takeSecret } from "../router.ts";

/** Where the browser keeps the key for this tab, if the holder asks for it. It ends with the tab. */
const STORED = "tollgate-key";

/** A key that the gateway accepted, and its account at that time. */
interface Session {
  readonly key: string;
  readonly account: Account;
}

const session = signal<Session | undefined>(undefined);
const refused = signal(false);

/** The account at the time when the page was opened with its key. Undefined: the login is shown. */
export const opened: ReadonlySignal<Account | undefined> = computed(() => session.value?.account);

/** True after the gateway refused the key that was in use: it has expired or was revoked. */
export const isRefused: ReadonlySignal<boolean> = refused;

/** The calls of the public API. The key is in the authorization header, and nowhere else. */
export const api = createApi({
  headers: () => authorization(session.peek()?.key ?? ""),
  onFailure: ({ status }: ApiFailure) => {
    // Without a session the call was late: the holder has signed out.
    if (status !== 401 || session.peek() === undefined) return;
    leave();
    refused.value = true;
  },
});

/**
 * Opens the page with this key, and keeps it in memory. `isKept`: also in the tab's storage, so that a reload keeps it.
 * Rejects with ApiFailure, such as 401 for a wrong key.
 */
export async function enter(candidate: string, isKept: boolean): Promise<void> {
  const calls = createApi({ headers: () => authorization(candidate) });
  const account = await calls.get<Account>("/v1/account").catch((error: unknown) => {
    // A kept key that has expired would be tried again at each reload.
    if (failureFrom(error).status === 401) sessionStorage.removeItem(STORED);
    throw error;
  });
  if (isKept) sessionStorage.setItem(STORED, candidate);
  else sessionStorage.removeItem(STORED);
  refused.value = false;
  session.value = { key: candidate, account };
}

/** Forgets the key. */
export function leave(): void {
  sessionStorage.removeItem(STORED);
  session.value = undefined;
}

/** The key to start with: of the address (`/#key=...`, taken out at once), else the one that this tab keeps. */
export function startingKey(): { readonly key: string; readonly isKept: boolean } | undefined {
  const ofAddress = takeSecret("key");
  if (ofAddress !== undefined) return { key: ofAddress, isKept: false };
  const kept = sessionStorage.getItem(STORED);
  return kept === null ? undefined : { key: kept, isKept: true };
}

/** A header has only printable ASCII; the browser refuses others with an error of its own. */
function authorization(candidate: string): Readonly<Record<string, string>> {
  return { authorization: `Bearer ${candidate.replaceAll(/[^\x21-\x7e]/g, "")}` };
}
