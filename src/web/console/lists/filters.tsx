import { signal, useSignal, useSignalEffect, type Signal } from "@preact/signals";
import type { ComponentChildren } from "preact";
import { useId, useMemo } from "preact/hooks";
import { Field } from "../../components/fields.tsx";
import { changeQuery, hrefOf, place } from "../../router.ts";

/**
 * A setting of the view that is shown, kept in the address under `name`. With `choices`, the first of them is the default,
 * and anything else counts as the default.
 */
export function useFilter(name: string): Signal<string>;
export function useFilter<Value extends string>(
  name: string,
  choices: readonly [Value, ...Value[]],
): Signal<Value>;
export function useFilter(name: string, choices?: readonly string[]): Signal<string> {
  const read = (): string => {
    const value = place.peek().query[name] ?? "";
    return choices && !choices.includes(value) ? (choices[0] ?? "") : value;
  };
  const [filter, here] = useMemo(() => [signal(read()), hrefOf(place.peek().path)], []);
  const isHere = (): boolean => hrefOf(place.value.path) === here;
  useSignalEffect(() => {
    if (isHere()) filter.value = read();
  });
  useSignalEffect(() => {
    const value = filter.value;
    if (hrefOf(place.peek().path) === here)
      changeQuery({ [name]: value === choices?.[0] ? "" : value });
  });
  return filter;
}

export interface FilterFieldProps {
  readonly label: string;
  /** Changes when what is typed is complete: at Enter, or when the focus leaves. */
  readonly value: Signal<string>;
  readonly error?: string | undefined;
  readonly suggestions?: readonly string[];
  readonly inputMode?: "text" | "decimal";
}

/** A filter that is typed. */
export function FilterField({
  label,
  value,
  error,
  suggestions = [],
  inputMode = "text",
}: FilterFieldProps) {
  const draft = useSignal(value.value);
  const listId = useId();
  useSignalEffect(() => {
    draft.value = value.value;
  });
  const commit = (): void => {
    value.value = draft.value.trim();
  };
  const options: ComponentChildren =
    suggestions.length > 0 ? (
      <datalist id={listId}>
        {suggestions.map((one) => (
          <option key={one} value={one} />
        ))}
      </datalist>
    ) : null;
  return (
    <Field label={label} error={error}>
      {(control) => (
        <>
          <input
            {...control}
            type="text"
            value={draft.value}
            autocomplete="off"
            spellcheck={false}
            autocapitalize="off"
            inputMode={inputMode}
            {...(suggestions.length > 0 && { list: listId })}
            onInput={(event) => (draft.value = event.currentTarget.value)}
            onChange={commit}
            onKeyDown={(event) => {
              if (event.key === "Enter" && !event.isComposing) commit();
            }}
          />
          {options}
        </>
      )}
    </Field>
  );
}
