import { useSignal } from "@preact/signals";
import type { ComponentChildren } from "preact";
import { useId, useLayoutEffect, useRef } from "preact/hooks";
import { failureFrom, type ApiFailure } from "../api.ts";
import { words } from "../language.ts";
import { Button } from "./buttons.tsx";
import { FailureText, Notice } from "./states.tsx";
import { openDialogs } from "../toasts.ts";
import { Toasts } from "./toasts.tsx";

export interface DialogProps {
  readonly title: ComponentChildren;
  /** Called when the reader closes it: by its button, by Escape or by a click outside. */
  readonly onClose: () => void;
  /** False while something runs that must not be left. */
  readonly canClose?: boolean;
  /** The buttons at the end. */
  readonly actions?: ComponentChildren;
  readonly children: ComponentChildren;
}

/**
 * A modal dialog. It is open as long as it is drawn. The focus goes to the field marked `isFirst`, or to the first
 * control, and returns to where it was.
 */
export function Dialog({ title, onClose, canClose = true, actions, children }: DialogProps) {
  const dialog = useRef<HTMLDialogElement>(null);
  const titleId = useId();
  const level = useSignal(-1);
  useLayoutEffect(() => {
    level.value = ++openDialogs.value;
    const focused = document.activeElement;
    const shown = dialog.current;
    shown?.showModal();
    shown?.querySelector<HTMLElement>("[data-first]")?.focus();
    return () => {
      openDialogs.value--;
      shown?.close();
      if (focused instanceof HTMLElement && focused.isConnected) focused.focus();
    };
  }, []);
  return (
    <dialog
      ref={dialog}
      aria-labelledby={titleId}
      onCancel={(event) => {
        event.preventDefault();
        if (canClose) onClose();
      }}
      onMouseDown={(event) => {
        // The dialog itself is hit only where its backdrop is.
        if (canClose && event.target === event.currentTarget) onClose();
      }}
    >
      <div class="dialog">
        <header class="split dialog-head">
          <h2 id={titleId}>{title}</h2>
          <Button
            tone="quiet"
            size="small"
            label={words.close}
            isDisabled={!canClose}
            onClick={onClose}
          >
            ✕
          </Button>
        </header>
        <div class="stack dialog-body">{children}</div>
        {actions !== undefined && <footer class="row dialog-actions">{actions}</footer>}
      </div>
      <Toasts level={level.value} />
    </dialog>
  );
}

export interface FormDialogProps {
  readonly title: ComponentChildren;
  /** The text of the button that makes the change. */
  readonly confirm: string;
  readonly isDanger?: boolean;
  /** False: the button is not ready, such as while a field is empty. */
  readonly canConfirm?: boolean;
  /** Makes the change. If it rejects, the dialog stays open and shows the failure. Otherwise the caller closes the dialog. */
  readonly onConfirm: () => Promise<void>;
  readonly onClose: () => void;
  readonly children: ComponentChildren;
}

/** A dialog with a form: Enter confirms, the button waits for the answer, and a failure is shown in it. */
export function FormDialog(props: FormDialogProps) {
  const { title, confirm, isDanger = false, canConfirm = true, onConfirm, onClose } = props;
  const formId = useId();
  const isBusy = useSignal(false);
  const failure = useSignal<ApiFailure | undefined>(undefined);
  const submit = async (): Promise<void> => {
    if (isBusy.value || !canConfirm) return;
    isBusy.value = true;
    failure.value = undefined;
    try {
      await onConfirm();
    } catch (error) {
      failure.value = failureFrom(error);
    } finally {
      isBusy.value = false;
    }
  };
  return (
    <Dialog title={title} onClose={onClose} canClose={!isBusy.value}>
      <form
        class="stack"
        id={formId}
        onSubmit={(event) => {
          event.preventDefault();
          void submit();
        }}
      >
        {props.children}
        {failure.value && (
          <Notice tone="failure">
            <FailureText failure={failure.value} />
          </Notice>
        )}
        <footer class="row dialog-actions">
          <Button onClick={onClose} isDisabled={isBusy.value}>
            {words.cancel}
          </Button>
          <Button
            type="submit"
            tone={isDanger ? "danger" : "primary"}
            isBusy={isBusy.value}
            isDisabled={!canConfirm}
          >
            {confirm}
          </Button>
        </footer>
      </form>
    </Dialog>
  );
}

/** One figure that a change moves. */
export interface ChangedFigure {
  readonly label: string;
  readonly before: ComponentChildren;
  /** Undefined while it is unknown, such as while no amount is typed. */
  readonly after: ComponentChildren | undefined;
}

export interface ConfirmChangeProps extends FormDialogProps {
  readonly figures: readonly ChangedFigure[];
}

/** Asks to confirm a change, with each figure before and after it. Its children are the fields, if it has any. */
export function ConfirmChange({ figures, children, ...props }: ConfirmChangeProps) {
  return (
    <FormDialog {...props}>
      {children}
      <dl class="changes" aria-live="polite">
        {figures.map(({ label, before, after }) => (
          <div key={label} class="split changed">
            <dt>{label}</dt>
            <dd>
              <span class="unseen">{words.before}: </span>
              <span class="changed-before muted">{before}</span>
              <span class="muted" aria-hidden="true">
                →
              </span>
              <span class="unseen">{words.after}: </span>
              <span class="changed-after">{after ?? words.none}</span>
            </dd>
          </div>
        ))}
      </dl>
    </FormDialog>
  );
}
