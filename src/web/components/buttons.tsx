import type { ComponentChildren } from "preact";
import { useSignal } from "@preact/signals";
import { words } from "../language.ts";
import { toast } from "../toasts.ts";

export interface ButtonProps {
  readonly children: ComponentChildren;
  readonly onClick?: () => void;
  /** `primary` is the one main action of a view, `danger` takes something away, `quiet` has no border. */
  readonly tone?: "primary" | "danger" | "plain" | "quiet";
  readonly size?: "normal" | "small";
  readonly type?: "button" | "submit";
  readonly isDisabled?: boolean;
  /** Something runs that the button started. It keeps its width and its focus, and does nothing meanwhile. */
  readonly isBusy?: boolean;
  /** For a button whose text alone does not tell what it does. */
  readonly label?: string;
}

export function Button({
  children,
  onClick,
  tone = "plain",
  size = "normal",
  type = "button",
  isDisabled = false,
  isBusy = false,
  label,
}: ButtonProps) {
  return (
    <button
      type={type}
      class={`button button-${tone} button-${size}`}
      disabled={isDisabled}
      aria-busy={isBusy}
      aria-disabled={isBusy}
      {...(label !== undefined && { "aria-label": label, title: label })}
      onClick={(event) => {
        if (isBusy) event.preventDefault();
        else onClick?.();
      }}
    >
      {children}
    </button>
  );
}

const COPIED_SHOWN_MS = 1500;

export interface CopyButtonProps {
  /** What is copied; a function is called at the click. */
  readonly text: string | (() => string);
  /** What is copied, such as `gpt-4o`. Screen readers and the tooltip say it behind the text of the button. */
  readonly label: string;
  /** The text of the button. The default is "Copy". */
  readonly action?: string;
  /** What is said afterwards. The default is "Copied". */
  readonly done?: string;
  readonly tone?: "plain" | "quiet" | "primary";
  readonly onCopied?: () => void;
  /** The focus goes here when a dialog opens. */
  readonly isFirst?: boolean;
  /** Shown in place of `action`, such as the text that is copied. */
  readonly children?: ComponentChildren;
}

/** Copies a text. It says so, also to a screen reader, or says why it could not. */
export function CopyButton(props: CopyButtonProps) {
  const { text, label, action = words.copy, done = words.copied, tone = "quiet" } = props;
  const isCopied = useSignal(false);
  const copy = async (): Promise<void> => {
    if (!(await copyText(typeof text === "string" ? text : text()))) {
      toast(words.copyFailed, "failure");
      return;
    }
    toast(done);
    props.onCopied?.();
    isCopied.value = true;
    setTimeout(() => (isCopied.value = false), COPIED_SHOWN_MS);
  };
  return (
    <button
      type="button"
      class={`button button-${tone} button-small copy-button`}
      aria-label={`${action}: ${label}`}
      title={`${action}: ${label}`}
      data-copied={isCopied.value}
      {...(props.isFirst === true && { "data-first": true })}
      onClick={() => void copy()}
    >
      {props.children ?? action}
    </button>
  );
}

/** Copies a text; false if the browser did not allow it. */
async function copyText(text: string): Promise<boolean> {
  // Absent on plain http, unless the host is this machine.
  const clipboard = navigator.clipboard as Clipboard | undefined;
  if (clipboard !== undefined) {
    try {
      await clipboard.writeText(text);
      return true;
    } catch {
      // The browser refused. The older way may still be allowed.
    }
  }
  return copySelection(text);
}

/** The older way: select the text in a field and copy the selection. */
function copySelection(text: string): boolean {
  const focused = document.activeElement;
  const field = document.createElement("textarea");
  field.value = text;
  field.className = "unseen";
  field.readOnly = true;
  // A modal dialog makes all that is outside inert.
  (document.querySelector("dialog[open]") ?? document.body).append(field);
  field.select();
  try {
    return document.execCommand("copy");
  } catch {
    return false;
  } finally {
    field.remove();
    if (focused instanceof HTMLElement) focused.focus({ preventScroll: true });
  }
}
