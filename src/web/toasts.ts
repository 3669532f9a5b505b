import { signal } from "@preact/signals";

/** A short message at the edge of the page. */
export interface Toast {
  readonly id: number;
  readonly text: string;
  readonly tone: "info" | "failure";
}

/** The toasts that are shown now. */
export const toasts = signal<readonly Toast[]>([]);

/** What screen readers were last told, without a toast. */
export const announcement = signal("");

/** How many dialogs are open. What is outside of the last one is inert, so that one shows the toasts. */
export const openDialogs = signal(0);

const SHOWN_MS = 5000;
const SHOWN_MAX = 3;
let lastId = 0;

/** Says something at the edge of the page, and to screen readers. A failure stays until it is dismissed. */
export function toast(text: string, tone: Toast["tone"] = "info"): void {
  const id = ++lastId;
  toasts.value = [...toasts.value, { id, text, tone }].slice(-SHOWN_MAX);
  if (tone === "info") setTimeout(() => dismiss(id), SHOWN_MS);
}

/** Says something to screen readers alone, such as that a table has new rows. */
export function announce(text: string): void {
  announcement.value = text;
}

export function dismiss(id: number): void {
  toasts.value = toasts.value.filter((one) => one.id !== id);
}
