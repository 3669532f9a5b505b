import type { Signal } from "@preact/signals";
import type { ComponentChildren, InputHTMLAttributes } from "preact";
import { useId } from "preact/hooks";
import { words } from "../language.ts";

interface LabelProps {
  readonly label: string;
  /** What to type, below the field. */
  readonly hint?: ComponentChildren;
  /** What is wrong with the value. It takes the place of the hint. */
  readonly error?: string | undefined;
  /** Adds "optional" to the label. */
  readonly isOptional?: boolean;
}

/** What a control needs to belong to its label, its hint and its error. */
interface ControlProps {
  readonly id: string;
  readonly "aria-describedby"?: string;
  readonly "aria-invalid"?: boolean;
}

export interface FieldProps extends LabelProps {
  readonly children: (control: ControlProps) => ComponentChildren;
}

/** A control with its label, hint and error. */
export function Field({ label, hint, error, isOptional = false, children }: FieldProps) {
  const id = useId();
  const noteId = `${id}-note`;
  const note = error ?? hint;
  return (
    <div class="field">
      <label for={id}>
        {label}
        {isOptional && <span class="muted"> {words.optional}</span>}
      </label>
      {children({
        id,
        ...(note !== undefined && { "aria-describedby": noteId }),
        ...(error !== undefined && { "aria-invalid": true }),
      })}
      {note !== undefined && (
        <div
          id={noteId}
          class={error === undefined ? "hint field-note" : "hint field-note field-error"}
        >
          {note}
        </div>
      )}
    </div>
  );
}

interface TextProps extends LabelProps {
  readonly value: Signal<string>;
  readonly placeholder?: string;
  readonly isRequired?: boolean;
  /** Typed as code: no spelling check, no capitals, figures of one width. */
  readonly isCode?: boolean;
  /** The focus goes here when the field appears, as in a dialog. */
  readonly isFirst?: boolean;
}

export interface TextFieldProps extends TextProps {
  readonly type?: "text" | "password" | "search" | "url" | "datetime-local";
  /** `decimal` for money, `numeric` for counts: the keyboard of a phone. */
  readonly inputMode?: "text" | "decimal" | "numeric";
  readonly autocomplete?: string;
  /** A unit behind the field, such as `₽`. */
  readonly unit?: string;
}

/** One line of text. Its value is a signal, which each key press sets. */
export function TextField({ value, unit, ...props }: TextFieldProps) {
  const { type = "text", inputMode, autocomplete = "off", placeholder } = props;
  const { isCode = false, isFirst = false, isRequired = false } = props;
  // The types of Preact's attributes differ by `type`. What is set here is allowed for each of them.
  const typed = { type } as InputHTMLAttributes;
  return (
    <Field {...props}>
      {(control) => (
        <span class="control">
          <input
            {...control}
            class={isCode ? "code" : undefined}
            {...typed}
            value={value.value}
            autocomplete={autocomplete}
            spellcheck={false}
            autocapitalize="off"
            required={isRequired}
            {...(inputMode && { inputMode })}
            {...(placeholder !== undefined && { placeholder })}
            {...(isFirst && { "data-first": true })}
            onInput={(event) => (value.value = event.currentTarget.value)}
          />
          {unit !== undefined && <span class="control-unit">{unit}</span>}
        </span>
      )}
    </Field>
  );
}

export interface TextAreaProps extends TextProps {
  readonly rows?: number;
  /** Called for Enter without Shift. Without it Enter starts a new line. */
  readonly onEnter?: () => void;
}

/** Several lines of text. */
export function TextArea({ value, rows = 3, onEnter, ...props }: TextAreaProps) {
  const { placeholder, isCode = false, isRequired = false, isFirst = false } = props;
  return (
    <Field {...props}>
      {(control) => (
        <textarea
          {...control}
          class={isCode ? "code" : undefined}
          rows={rows}
          value={value.value}
          required={isRequired}
          {...(placeholder !== undefined && { placeholder })}
          {...(isFirst && { "data-first": true })}
          onInput={(event) => (value.value = event.currentTarget.value)}
          onKeyDown={(event) => {
            // An input method uses Enter to choose a character.
            if (!onEnter || event.key !== "Enter" || event.shiftKey || event.isComposing) return;
            event.preventDefault();
            onEnter();
          }}
        />
      )}
    </Field>
  );
}

export interface SelectOption<Value extends string = string> {
  readonly value: Value;
  readonly text: string;
}

export interface SelectFieldProps<Value extends string> extends LabelProps {
  readonly value: Signal<Value>;
  readonly options: readonly SelectOption<Value>[];
}

/** One of a list. */
export function SelectField<Value extends string>({
  value,
  options,
  ...props
}: SelectFieldProps<Value>) {
  return (
    <Field {...props}>
      {(control) => (
        <select
          {...control}
          value={value.value}
          onChange={(event) => (value.value = event.currentTarget.value as Value)}
        >
          {options.map((option) => (
            <option key={option.value} value={option.value}>
              {option.text}
            </option>
          ))}
        </select>
      )}
    </Field>
  );
}

export interface CheckFieldProps {
  readonly label: ComponentChildren;
  readonly value: Signal<boolean>;
  readonly hint?: ComponentChildren;
}

/** Yes or no. */
export function CheckField({ label, value, hint }: CheckFieldProps) {
  const id = useId();
  return (
    <div class="check-field">
      <input
        id={id}
        type="checkbox"
        checked={value.value}
        {...(hint !== undefined && { "aria-describedby": `${id}-note` })}
        onChange={(event) => (value.value = event.currentTarget.checked)}
      />
      <label for={id}>{label}</label>
      {hint !== undefined && (
        <div id={`${id}-note`} class="hint field-note">
          {hint}
        </div>
      )}
    </div>
  );
}

export interface SearchFieldProps {
  readonly label: string;
  readonly value: Signal<string>;
}

/** A field that narrows a list. Its label is its placeholder. */
export function SearchField({ label, value }: SearchFieldProps) {
  return (
    <input
      class="search"
      type="search"
      aria-label={label}
      placeholder={label}
      value={value.value}
      autocomplete="off"
      spellcheck={false}
      onInput={(event) => (value.value = event.currentTarget.value)}
    />
  );
}

export interface ChoiceProps<Value extends string> {
  /** What is chosen. Screen readers say it. */
  readonly label: string;
  readonly value: Signal<Value>;
  readonly options: readonly SelectOption<Value>[];
}

/** One of a few, all of them visible, such as the span of a report. Arrow keys move the choice. */
export function Choice<Value extends string>({ label, value, options }: ChoiceProps<Value>) {
  const name = useId();
  return (
    <fieldset class="choice">
      <legend class="unseen">{label}</legend>
      {options.map((option) => (
        <label key={option.value}>
          <input
            type="radio"
            name={name}
            value={option.value}
            checked={option.value === value.value}
            onChange={() => (value.value = option.value)}
          />
          <span>{option.text}</span>
        </label>
      ))}
    </fieldset>
  );
}

const spanNames = ["24h", "7d", "30d", "90d"] as const;
export type SpanName = (typeof spanNames)[number];

/** The time span of a view: 24 hours, 7, 30 or 90 days. */
export function SpanChoice({ value }: { value: Signal<SpanName> }) {
  const options = spanNames.map((name) => ({ value: name, text: words.spans[name] }));
  return <Choice label={words.spans.label} value={value} options={options} />;
}
