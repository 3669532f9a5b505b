import { batch, useSignal, useSignalEffect, type Signal } from "@preact/signals";
import { useId } from "preact/hooks";
import type { ApiFailure } from "../api.ts";
import { words } from "../language.ts";
import { useSetting } from "../router.ts";
import { Button } from "./buttons.tsx";
import { Field, SearchField, SelectField, type SelectOption } from "./fields.tsx";
import { PeriodFields } from "./period.tsx";

interface ChoiceFilter {
  readonly kind: "choice";
  /** The first has no value: it allows all. */
  readonly options: readonly SelectOption[];
  /** The text of a value that is none of the options. Without it, such a value counts as the first option. */
  readonly textOf?: (value: string) => string;
}

interface TypedFilter {
  readonly kind: "text";
  readonly suggestions?: readonly string[];
  readonly inputMode?: "decimal";
}

/**
 * A filter of a list. Its value is a text in the query of the list and in the address, both under `name`; an empty text
 * allows all. A period has a start, under `name`, and an end, under `until`.
 */
export type Filter = { readonly name: string; readonly label: string } & (
  | ChoiceFilter
  | TypedFilter
  | { readonly kind: "search" }
  | { readonly kind: "period"; readonly until: string }
);

export interface Filters {
  readonly declared: readonly Filter[];
  readonly texts: Readonly<Record<string, Signal<string>>>;
  /** The query. */
  readonly values: () => Readonly<Record<string, string>>;
  readonly isFiltered: () => boolean;
  readonly clear: () => void;
}

/** The filters of a list. The address keeps their values, so that the way back and a link have them. */
export function useFilters(declared: readonly Filter[]): Filters {
  const texts: Readonly<Record<string, Signal<string>>> = Object.fromEntries(
    declared.flatMap((filter) => {
      const values =
        filter.kind === "choice" && !filter.textOf && filter.options.map(({ value }) => value);
      const start = [filter.name, useSetting(filter.name, values || undefined)] as const;
      return filter.kind === "period" ? [start, [filter.until, useSetting(filter.until)]] : [start];
    }),
  );
  const entries = Object.entries(texts);
  return {
    declared,
    texts,
    values: () => Object.fromEntries(entries.map(([name, { value }]) => [name, value.trim()])),
    isFiltered: () => entries.some(([, { value }]) => value !== ""),
    clear: () =>
      batch(() => {
        for (const [, text] of entries) text.value = "";
      }),
  };
}

/** The fields of the filters. The field that a failure names has its message. */
export function FilterBar({
  filters,
  failure,
}: {
  filters: Filters;
  failure: ApiFailure | undefined;
}) {
  const { declared, texts } = filters;
  const errorOf = (name: string): string | undefined =>
    failure?.fields["field"] === name ? failure.message : undefined;
  return (
    <div
      class={declared.length > 2 ? "filters" : "row toolbar"}
      role="search"
      aria-label={words.filters}
    >
      {declared.map((filter) => (
        <FilterField key={filter.name} filter={filter} texts={texts} errorOf={errorOf} />
      ))}
      {filters.isFiltered() && <ClearFilters filters={filters} tone="quiet" />}
    </div>
  );
}

/** The button that empties all filters. A search alone needs none. */
export function ClearFilters({
  filters: { declared, clear },
  tone = "plain",
}: {
  filters: Filters;
  tone?: "plain" | "quiet";
}) {
  if (declared.every(({ kind }) => kind === "search")) return null;
  return (
    <Button tone={tone} onClick={clear}>
      {words.clearFilters}
    </Button>
  );
}

interface FilterFieldProps {
  readonly filter: Filter;
  readonly texts: Filters["texts"];
  readonly errorOf: (name: string) => string | undefined;
}

function FilterField({ filter, texts, errorOf }: FilterFieldProps) {
  const { name, label } = filter;
  const value = texts[name];
  if (value === undefined) return null;
  switch (filter.kind) {
    case "search":
      return <SearchField label={label} value={value} />;
    case "choice":
      return <SelectField label={label} value={value} options={optionsOf(filter, value.value)} />;
    case "text":
      return <TypedField {...filter} value={value} error={errorOf(name)} />;
    case "period": {
      const until = texts[filter.until];
      return (
        until && (
          <PeriodFields
            label={label}
            since={value}
            until={until}
            sinceError={errorOf(name)}
            untilError={errorOf(filter.until)}
          />
        )
      );
    }
  }
}

function optionsOf({ options, textOf }: ChoiceFilter, chosen: string): readonly SelectOption[] {
  if (!textOf || options.some(({ value }) => value === chosen)) return options;
  return [...options, { value: chosen, text: textOf(chosen) }];
}

interface TypedFieldProps extends Omit<TypedFilter, "kind"> {
  readonly label: string;
  /** Changes when the reader has finished typing: at Enter, or when the focus leaves. */
  readonly value: Signal<string>;
  readonly error: string | undefined;
}

function TypedField({ label, value, error, suggestions = [], inputMode }: TypedFieldProps) {
  const draft = useSignal(value.value);
  const listId = useId();
  useSignalEffect(() => {
    draft.value = value.value;
  });
  const commit = (): void => {
    value.value = draft.value.trim();
  };
  const options =
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
            inputMode={inputMode ?? "text"}
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
