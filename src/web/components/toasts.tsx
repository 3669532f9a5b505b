import { words } from "../language.ts";
import { announcement, dismiss, toasts } from "../toasts.ts";
import { Button } from "./buttons.tsx";

/** The place of the toasts. PageFrame has one. */
export function Toasts() {
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
