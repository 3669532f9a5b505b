import { signal, useSignal, type Signal } from "@preact/signals";
import type { ComponentChildren, VNode } from "preact";
import { useEffect, useMemo } from "preact/hooks";
import { ApiFailure, failureFrom } from "../api.ts";
import { Button, CopyButton } from "../components/buttons.tsx";
import { ConfirmChange, Dialog, FormDialog, type ChangedFigure } from "../components/dialog.tsx";
import { TextField } from "../components/fields.tsx";
import { Notice } from "../components/states.tsx";
import { toast } from "../toasts.ts";
import { amountText } from "./amounts.ts";
import { call, type Answer, type Input, type Route } from "./call.ts";
import { text } from "./text.ts";

/** A field of a dialog. It has the name of its value in the operation. */
export interface DialogField<Name extends string> {
  readonly name: Name;
  readonly label: string;
  readonly hint?: string;
  /** `code`: typed as code. Unless given it is a text. */
  readonly kind?: "money" | "count" | "code";
  /** What stands there at first. */
  readonly value?: string;
  /** Needed before the change can be confirmed. */
  readonly isRequired?: boolean;
  /** Adds "optional" to the label. */
  readonly isOptional?: boolean;
  readonly isFirst?: boolean;
}

type Change = Extract<Route, `POST ${string}`>;
type Name<Of extends Change> = keyof Input<Of> & string;

/** What stands in the fields, without spaces at the ends, amounts as they are sent. */
export type Typed<Of extends Change> = Readonly<Record<Name<Of>, string>>;

/** How a dialog ends. */
export interface DialogEnds {
  readonly onClose: () => void;
  /** After the change. */
  readonly onDone?: () => void;
}

export interface OperationDialogProps<Of extends Change> extends DialogEnds {
  readonly call: Of;
  /** What is changed: values that are not typed. */
  readonly at?: Partial<Input<Of>>;
  readonly title: string;
  /** The text of the button that makes the change. */
  readonly confirm: string;
  readonly isDanger?: boolean;
  /** What the change means, above the fields. */
  readonly intro?: ComponentChildren;
  /** The fields of an inner list stand beside each other. */
  readonly fields?: readonly (DialogField<Name<Of>> | readonly DialogField<Name<Of>>[])[];
  /** Below the fields. */
  readonly hint?: string;
  /** What the change moves, before and after it. The figures change when newer data are loaded. */
  readonly figures?: (typed: Typed<Of>) => readonly ChangedFigure[];
  /** What is sent; unless given, all that is typed. */
  readonly input?: (typed: Typed<Of>) => Partial<Input<Of>>;
  /** False: there is nothing to confirm yet. */
  readonly canConfirm?: (typed: Typed<Of>) => boolean;
  /** The short message after the change. It may throw what the open dialog shows instead. */
  readonly done?: (answer: Answer<Of>) => string;
  /** What takes the place of the dialog after the change: a secret that is shown once. */
  readonly shown?: (answer: Answer<Of>) => VNode;
  readonly onAnswer?: (answer: Answer<Of>) => void;
}

/** Confirms a change with figures before and after it, makes it, and tells the outcome. */
export function OperationDialog<Of extends Change>(props: OperationDialogProps<Of>) {
  const { fields = [], intro, hint, canConfirm, figures, done, shown } = props;
  const all = fields.flat() as readonly DialogField<Name<Of>>[];
  const form = useMemo(() => createForm(all), []);
  const answer = useSignal<Answer<Of> | undefined>(undefined);
  const typed = form.typed();
  const confirm = async (): Promise<void> => {
    const input = { ...props.at, ...(props.input?.(typed) ?? typed) } as Input<Of>;
    const changed = await form.send(props.call, input);
    if (changed === undefined) return;
    if (shown) answer.value = changed;
    props.onDone?.();
    const message = done?.(changed);
    if (message !== undefined) toast(message);
    if (!shown) props.onClose();
    props.onAnswer?.(changed);
  };
  if (shown && answer.value !== undefined) return shown(answer.value);
  const frame = {
    title: props.title,
    confirm: props.confirm,
    isDanger: props.isDanger ?? false,
    canConfirm:
      all.every(({ name, isRequired }) => !isRequired || typed[name] !== "") &&
      (canConfirm?.(typed) ?? true),
    onConfirm: confirm,
    onClose: props.onClose,
  };
  const content = (
    <>
      {intro !== undefined && <p>{intro}</p>}
      {fields.map((row) => {
        const beside = [row].flat() as readonly DialogField<Name<Of>>[];
        const controls = beside.map((field) => form.control(field));
        if (beside.length === 1) return controls;
        return (
          <div
            key={beside[0]?.name}
            class={beside.length > 2 ? "grid fields fields-three" : "grid fields"}
          >
            {controls}
          </div>
        );
      })}
      {hint !== undefined && <p class="hint">{hint}</p>}
    </>
  );
  if (figures === undefined) return <FormDialog {...frame}>{content}</FormDialog>;
  return (
    <ConfirmChange {...frame} figures={figures(typed)}>
      {content}
    </ConfirmChange>
  );
}

function createForm<Of extends Change>(fields: readonly DialogField<Name<Of>>[]) {
  const values = new Map<string, Signal<string>>(
    fields.map(({ name, value = "" }) => [name, signal(value)]),
  );
  const wrong = signal<{ name: string; value: string; message: string } | undefined>(undefined);
  return {
    typed: () =>
      Object.fromEntries(
        fields.map(({ name, kind }) => {
          const value = values.get(name)?.value.trim() ?? "";
          return [name, kind === "money" ? amountText(value) : value];
        }),
      ) as Typed<Of>,
    control({ name, label, hint, kind, ...field }: DialogField<Name<Of>>) {
      const value = values.get(name) ?? signal("");
      // As long as the refused value is not changed.
      const isWrong = wrong.value?.name === name && wrong.value.value === value.value;
      return (
        <TextField
          key={name}
          label={label}
          value={value}
          error={isWrong ? wrong.value?.message : undefined}
          isCode={kind === "code"}
          isFirst={field.isFirst ?? false}
          isRequired={field.isRequired ?? false}
          isOptional={field.isOptional ?? false}
          {...(hint !== undefined && { hint })}
          {...(kind === "money" && { unit: "₽", inputMode: "decimal" })}
          {...(kind === "count" && { inputMode: "numeric" })}
        />
      );
    },
    /** Undefined if a field is refused: its error is shown there, and the focus goes there. */
    async send(route: Of, input: Input<Of>): Promise<Answer<Of> | undefined> {
      wrong.value = undefined;
      try {
        return await call(route, input);
      } catch (error) {
        const failure = failureFrom(error);
        const name = String(failure.fields["field"]);
        const refused = values.get(name);
        if (refused !== undefined) {
          wrong.value = { name, value: refused.peek(), message: failure.message };
          focusWrongField();
          return undefined;
        }
        // The change may have been made although the answer was lost.
        if (failure.status !== 0) throw failure;
        const { unknown, unknownWithoutRef } = text.forms;
        const hasRef = "ref" in input && Boolean(input.ref);
        throw new ApiFailure(0, `${failure.message} ${hasRef ? unknown : unknownWithoutRef}`);
      }
    },
  };
}

/** After the field is drawn with its error. */
function focusWrongField(): void {
  setTimeout(() =>
    document.querySelector<HTMLElement>("dialog[open] [aria-invalid='true']")?.focus(),
  );
}

const REF_RANDOM_BYTES = 8;

/** A ref that no other entry has. With it, a change that is sent twice counts once. */
function newRef(): string {
  const random = crypto.getRandomValues(new Uint8Array(REF_RANDOM_BYTES));
  const day = new Date().toISOString().slice(0, "2026-11-24".length);
  return `console-${day}-${[...random].map((byte) => byte.toString(16).padStart(2, "0")).join("")}`;
}

/** The two texts that stand with an entry of the ledger. */
export function refAndNote(): readonly DialogField<"ref" | "note">[] {
  const { note, noteHint, ref, refHint } = text.forms;
  return [
    { name: "note", label: note, hint: noteHint, isOptional: true },
    { name: "ref", label: ref, hint: refHint, kind: "code", isRequired: true, value: newRef() },
  ];
}

/** Tells in the dialog that nothing changed, because the same change was made before. */
export function requireApplied<Of extends { readonly applied: boolean }>(answer: Of): Of {
  if (!answer.applied) throw new ApiFailure(200, text.forms.appliedBefore);
  return answer;
}

export interface OnceDialogProps {
  readonly title: ComponentChildren;
  readonly onClose: () => void;
  /** What is shown once. It calls `onCopied` when the reader has copied it. */
  readonly children: (onCopied: () => void) => ComponentChildren;
}

/** A dialog with a secret that cannot be shown again. Until the reader copies it, closing the dialog or the tab asks for confirmation. */
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
      <div class="stack" onCopy={onCopied}>
        {children(onCopied)}
        {isAsking.value && <Notice tone="failure" title={text.once.notCopied} />}
        <footer class="row dialog-actions">
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
    <div class="stack secret">
      <code>{secret}</code>
      <CopyButton text={secret} label={label} tone="primary" onCopied={onCopied} isFirst />
    </div>
  );
}
