import { words } from "../language.ts";
import { announcement, dismiss, openDialogs, toasts } from "../toasts.ts";
import { Button } from "./buttons.tsx";

/** The place of the toasts: one in PageFrame and one in each dialog. `level` counts the dialogs around it. */
export function Toasts({ level }: { level: number }) {
  if (level !== openDialogs.value) return null;
  return (
    <>
      <div class="toasts" role="status">
        {toasts.value.map(({ id, text, tone }) => (
          <div key={id} class={`toast toast-${tone}`}>
            <span>{text}</span>
            <Button tone="quiet" size="small" label={words.dismiss} onClick={() => dismiss(id)}>
              ✕
            </Button>
          </div>
        ))}
      </div>
      <div class="unseen" role="status">
        {announcement.value}
      </div>
    </>
  );
}
