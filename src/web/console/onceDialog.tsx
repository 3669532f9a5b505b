import { useSignal } from "@preact/signals";
import type { ComponentChildren } from "preact";
import { useEffect } from "preact/hooks";
import { Button, CopyButton } from "../components/buttons.tsx";
import { Dialog } from "../components/dialog.tsx";
import { Notice } from "../components/states.tsx";
import { text } from "./text.ts";

export interface OnceDialogProps {
  readonly title: ComponentChildren;
  readonly onClose: () => void;
  /** What is shown once. It calls `onCopied` when the reader has copied it. */
  readonly children: (onCopied: () => void) => ComponentChildren;
}

/** A dialog with a secret that cannot be shown again. It asks before it closes, or the tab, as long as nothing was copied. */
export function OnceDialog({ title, onClose, children }: OnceDialogProps) {
  const isCopied = useSignal(false);
  const isAsking = useSignal(false);
  useEffect(() => {
    const onLeave = (event: Event): void => {
      if (!isCopied.value) event.preventDefault();
    };
    addEventListener("beforeunload", onLeave);
    return () => removeEventListener("beforeunload", onLeave);
  }, []);
  const onCopied = (): void => {
    isCopied.value = true;
    isAsking.value = false;
  };
  const close = (): void => {
    if (isCopied.value || isAsking.value) onClose();
    else isAsking.value = true;
  };
  return (
    <Dialog title={title} onClose={close}>
      {/* A selection that is copied by hand counts too. */}
      <div class="once" onCopy={onCopied}>
        {children(onCopied)}
        {isAsking.value && <Notice tone="failure" title={text.once.notCopied} />}
        <footer class="dialog-actions">
          <Button tone={isAsking.value ? "danger" : "plain"} onClick={close}>
            {isAsking.value ? text.once.closeAnyway : text.once.close}
          </Button>
        </footer>
      </div>
    </Dialog>
  );
}

export interface SecretProps {
  /** What it is. */
  readonly label: string;
  readonly secret: string;
  readonly onCopied: () => void;
}

/** One secret with its copy button. */
export function Secret({ label, secret, onCopied }: SecretProps) {
  return (
    <div class="secret">
      <code>{secret}</code>
      <CopyButton text={secret} label={label} tone="primary" onCopied={onCopied} isFirst />
    </div>
  );
}
