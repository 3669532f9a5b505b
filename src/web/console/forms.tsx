import { signal, type Signal } from "@preact/signals";
import { useMemo } from "preact/hooks";
import { ApiFailure, failureFrom } from "../api.ts";
import { TextField } from "../components/fields.tsx";
import { api } from "./session.ts";
import { text } from "./text.ts";

/** What a field of `Form` gives to its control. */
interface FieldState {
  readonly value: Signal<string>;
  /** What the server said of the value, as long as it is not changed. */
  readonly error: string | undefined;
}

/** The fields of a dialog that makes a change. */
export interface Form<Name extends string> {
  readonly values: Readonly<Record<Name, Signal<string>>>;
  field(name: Name): FieldState;
  /** What is typed, without spaces at its ends. */
  typed(name: Name): string;
  /**
   * Makes the change. Empty texts are left out of the body. If the server refuses a field, its error is shown there, the
   * focus goes there, and the answer is undefined. Rejects with any other failure.
   */
  send<Answer>(
    path: string,
    body: Readonly<Record<string, string | undefined>>,
  ): Promise<Answer | undefined>;
}

/** A form with these fields, with what stands in them at first. */
export function useForm<Name extends string>(initial: Readonly<Record<Name, string>>): Form<Name> {
  return useMemo(() => createForm(initial), []);
}

function createForm<Name extends string>(initial: Readonly<Record<Name, string>>): Form<Name> {
  const values = Object.fromEntries(
    Object.entries<string>(initial).map(([name, value]) => [name, signal(value)]),
  ) as Record<Name, Signal<string>>;
  const wrong = signal<{ name: Name; value: string; message: string } | undefined>(undefined);
  const isField = (name: unknown): name is Name => typeof name === "string" && name in values;
  return {
    values,
    field(name) {
      const value = values[name];
      const isWrong = wrong.value?.name === name && wrong.value.value === value.value;
      return { value, error: isWrong ? wrong.value?.message : undefined };
    },
    typed: (name) => values[name].value.trim(),
    async send<Answer>(path: string, body: Readonly<Record<string, string | undefined>>) {
      wrong.value = undefined;
      try {
        return await api.post<Answer>(path, given(body));
      } catch (error) {
        const failure = failureFrom(error);
        const name = failure.fields["field"];
        if (isField(name)) {
          wrong.value = { name, value: values[name].peek(), message: failure.message };
          focusWrongField();
          return undefined;
        }
        // The change may have been made although the answer was lost.
        if (failure.status === 0) {
          const { unknown, unknownWithoutRef } = text.forms;
          throw new ApiFailure(
            0,
            `${failure.message} ${body["ref"] ? unknown : unknownWithoutRef}`,
          );
        }
        throw failure;
      }
    },
  };
}

function given(body: Readonly<Record<string, string | undefined>>) {
  return Object.fromEntries(Object.entries(body).filter(([, value]) => Boolean(value)));
}

/** After the field is drawn with its error. */
function focusWrongField(): void {
  setTimeout(() =>
    document.querySelector<HTMLElement>("dialog[open] [aria-invalid='true']")?.focus(),
  );
}

const REF_RANDOM_BYTES = 8;

/** A ref that no other entry has. With it, a change that is sent twice counts once. */
export function newRef(): string {
  const random = crypto.getRandomValues(new Uint8Array(REF_RANDOM_BYTES));
  const day = new Date().toISOString().slice(0, "2026-11-24".length);
  return `console-${day}-${[...random].map((byte) => byte.toString(16).padStart(2, "0")).join("")}`;
}

/** The two texts that stand with an entry of the ledger. */
export function RefAndNote({ form }: { form: Form<"ref" | "note"> }) {
  return (
    <>
      <TextField
        label={text.forms.note}
        hint={text.forms.noteHint}
        isOptional
        {...form.field("note")}
      />
      <TextField
        label={text.forms.ref}
        hint={text.forms.refHint}
        isRequired
        isCode
        {...form.field("ref")}
      />
    </>
  );
}

/** Tells in the dialog that nothing changed, because the same change was made before. */
export function requireApplied(answer: { readonly applied: boolean }): void {
  if (!answer.applied) throw new ApiFailure(200, text.forms.appliedBefore);
}
