import type { Signal } from "@preact/signals";
import type { ComponentChildren } from "preact";
import { useId, useRef } from "preact/hooks";

export interface Tab<Id extends string> {
  readonly id: Id;
  readonly text: string;
  readonly content: () => ComponentChildren;
}

export interface TabsProps<Id extends string> {
  /** What the tabs have in common. Screen readers say it. */
  readonly label: string;
  readonly value: Signal<Id>;
  readonly tabs: readonly Tab<Id>[];
}

/**
 * Panels of which one is visible. Arrow keys, Home and End move between the tabs:
 * https://www.w3.org/WAI/ARIA/apg/patterns/tabs/
 */
export function Tabs<Id extends string>({ label, value, tabs }: TabsProps<Id>) {
  const id = useId();
  const list = useRef<HTMLDivElement>(null);
  const chosen = tabs.findIndex((tab) => tab.id === value.value);
  const move = (at: number): void => {
    const tab = tabs[(at + tabs.length) % tabs.length];
    if (tab === undefined) return;
    value.value = tab.id;
    list.current?.querySelector<HTMLElement>(`[data-tab="${tab.id}"]`)?.focus();
  };
  const onKeyDown = (event: KeyboardEvent): void => {
    const targets: Readonly<Record<string, number>> = {
      ArrowRight: chosen + 1,
      ArrowLeft: chosen - 1,
      Home: 0,
      End: tabs.length - 1,
    };
    const at = targets[event.key];
    if (at === undefined) return;
    event.preventDefault();
    move(at);
  };
  return (
    <div>
      <div ref={list} class="tab-list" role="tablist" aria-label={label}>
        {tabs.map((tab) => {
          const isChosen = tab.id === value.value;
          return (
            <button
              key={tab.id}
              type="button"
              role="tab"
              id={`${id}-${tab.id}`}
              data-tab={tab.id}
              aria-selected={isChosen}
              aria-controls={`${id}-panel`}
              tabIndex={isChosen ? 0 : -1}
              onClick={() => (value.value = tab.id)}
              onKeyDown={onKeyDown}
            >
              {tab.text}
            </button>
          );
        })}
      </div>
      <div
        id={`${id}-panel`}
        class="tab-panel"
        role="tabpanel"
        aria-labelledby={`${id}-${value.value}`}
      >
        {tabs[chosen]?.content()}
      </div>
    </div>
  );
}
