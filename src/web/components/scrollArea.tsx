import { useSignal } from "@preact/signals";
import type { ComponentChildren } from "preact";
import { useLayoutEffect, useRef } from "preact/hooks";

/** A place that scrolls by itself. The keyboard reaches it only if there is something to scroll. */
export function ScrollArea({ label, children }: { label: string; children: ComponentChildren }) {
  const area = useRef<HTMLDivElement>(null);
  const isScrolling = useSignal(false);
  useLayoutEffect(() => {
    const element = area.current;
    if (!element) return;
    const measure = (): void => {
      isScrolling.value =
        element.scrollWidth > element.clientWidth || element.scrollHeight > element.clientHeight;
    };
    const observer = new ResizeObserver(measure);
    observer.observe(element);
    if (element.firstElementChild) observer.observe(element.firstElementChild);
    return () => observer.disconnect();
  }, []);
  return (
    <div
      ref={area}
      class="scroll"
      {...(isScrolling.value && { tabIndex: 0, role: "region", "aria-label": label })}
    >
      {children}
    </div>
  );
}
