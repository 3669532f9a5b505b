import { jsonEscape, replaceUnprintable } from "../../lib/printable.ts";
import type { ComponentChildren } from "preact";
import { words } from "../language.ts";

/** A tooltip of more characters helps nobody. */
const TITLE_CHARACTERS_MAX = 300;

/** A text from elsewhere with its control characters shown as escapes. Right-to-left marks are among them. */
export function visibleText(text: string): string {
  return replaceUnprintable(text, jsonEscape);
}

/**
 * A name from elsewhere, such as that of an account or a model. It keeps its direction to itself, is clipped where there
 * is no room, and has its whole text as tooltip.
 */
export function Name({ text, isCode = false }: { text: string; isCode?: boolean }) {
  const shown = visibleText(text);
  return (
    <bdi class={isCode ? "clip code" : "clip"} title={shown.slice(0, TITLE_CHARACTERS_MAX)}>
      {shown}
    </bdi>
  );
}

/** Text from elsewhere with its line breaks, such as an answer or a note. Long words wrap. */
export function FreeText({ text }: { text: string }) {
  const lines = text.split(/\r\n|[\n\r]/).map(visibleText);
  return <bdi class="free-text">{lines.join("\n")}</bdi>;
}

/** The address, if it is one of http or https; undefined otherwise. */
function checkedUrl(text: string): string | undefined {
  const url = URL.parse(text);
  return url?.protocol === "https:" || url?.protocol === "http:" ? url.href : undefined;
}

/** A link to another site, in a new tab, or to a mail program. Any other address is shown as text. */
export function OutsideLink({ href, children }: { href: string; children: ComponentChildren }) {
  if (URL.parse(href)?.protocol === "mailto:") {
    return (
      <a href={href} rel="noopener noreferrer">
        {children}
      </a>
    );
  }
  const url = checkedUrl(href);
  if (url === undefined) return <>{children}</>;
  return (
    <a href={url} target="_blank" rel="noopener noreferrer">
      {children}
      <span aria-hidden="true"> ↗</span>
      <span class="unseen"> ({words.opensElsewhere})</span>
    </a>
  );
}
