import type { ComponentChildren } from "preact";
import { useEffect, useRef } from "preact/hooks";
import { words } from "../language.ts";
import { hrefOf, place } from "../router.ts";
import { Toasts } from "./toasts.tsx";

/** One of the views of a page. Its address within the page is its id, such as `#/requests`. */
export interface View {
  /** "" for the first view. */
  readonly id: string;
  readonly text: string;
  /** What the view shows. `detail` is the next part of the address, such as the name of one account. */
  show(detail: string | undefined): ComponentChildren;
}

export interface PageFrameProps {
  /** The name of the page behind that of the product, such as "Console". */
  readonly title: string;
  /** The address says which one is shown; the first one without an address. None: there is no navigation, such as before the login. */
  readonly views?: readonly View[];
  /** What is shown, for the browser's tab. The default is the text of the view and its detail. */
  readonly heading?: string;
  /** At the end of the header, such as the account's name and a way out. */
  readonly actions?: ComponentChildren;
  /** At the end of the page, such as version and time zone. */
  readonly foot?: ComponentChildren;
  /** Above the view. */
  readonly children?: ComponentChildren;
}

/**
 * The frame of a page: link to the content, header, navigation, view, toasts. When `heading` or the view changes, the
 * focus goes to the content, and the browser's tab gets the new title.
 */
export function PageFrame(props: PageFrameProps) {
  const { title, views = [], actions, foot, children } = props;
  const [viewId, detail] = place.value.path;
  const view = views.find(({ id }) => id === viewId) ?? views[0];
  const heading = props.heading ?? [view?.text, detail].filter(Boolean).join(" ");
  const main = useRef<HTMLElement>(null);
  const navigation = useRef<HTMLElement>(null);
  const isFirst = useRef(true);
  useEffect(() => {
    document.title = [heading, `${words.product} ${title}`].filter(Boolean).join(" · ");
    navigation.current
      ?.querySelector("[aria-current]")
      ?.scrollIntoView({ block: "nearest", inline: "nearest" });
    if (!isFirst.current) {
      main.current?.focus({ preventScroll: true });
      scrollTo(0, 0);
    }
    isFirst.current = false;
  }, [heading, title]);
  return (
    <>
      <a
        class="skip-link"
        href="#content"
        onClick={(event) => {
          // The fragment belongs to the views.
          event.preventDefault();
          main.current?.focus();
        }}
      >
        {words.skipToContent}
      </a>
      <header class="page-head">
        <div class="row page-head-row">
          <span class="brand">
            <Mark />
            <span>{words.product}</span>
            <span class="muted">{title}</span>
          </span>
          {views.length > 0 && (
            <nav ref={navigation} class="views" aria-label={words.navigation}>
              {views.map(({ id, text }) => (
                <a
                  key={id}
                  href={hrefOf(id === "" ? [] : [id])}
                  {...(id === view?.id && { "aria-current": "page" })}
                >
                  {text}
                </a>
              ))}
            </nav>
          )}
          <div class="page-actions">{actions}</div>
        </div>
      </header>
      <main ref={main} id="content" tabIndex={-1}>
        {children}
        {view?.show(detail)}
      </main>
      {foot !== undefined && <footer class="row page-foot">{foot}</footer>}
      <Toasts level={0} />
    </>
  );
}

/** The sign of the product: a barrier beside its post. */
function Mark() {
  return (
    <svg class="mark" viewBox="0 0 16 16" aria-hidden="true">
      <path d="M2 2h2v12H2zM5 5h9v2H5zM12 9h2v5h-2z" />
    </svg>
  );
}

export interface ViewHeadProps {
  readonly title: ComponentChildren;
  /** A line below the title. */
  readonly text?: ComponentChildren;
  /** The way back to the list, above the title. */
  readonly back?: { readonly href: string; readonly text: string };
  /** For example `SpanChoice` and buttons. */
  readonly actions?: ComponentChildren;
}

/** The head of a view: its title, and what can be done in it. */
export function ViewHead({ title, text, back, actions }: ViewHeadProps) {
  return (
    <div class="split view-head">
      <div class="view-title">
        {back && (
          <a class="hint back" href={back.href}>
            <span aria-hidden="true">← </span>
            {back.text}
          </a>
        )}
        <h1>{title}</h1>
        {text !== undefined && <p>{text}</p>}
      </div>
      {actions !== undefined && <div class="row">{actions}</div>}
    </div>
  );
}

export interface PanelProps {
  /** Without it the panel has no head. */
  readonly title?: ComponentChildren;
  readonly text?: ComponentChildren;
  readonly actions?: ComponentChildren;
  /** Tables and charts go from edge to edge. */
  readonly isFlush?: boolean;
  readonly children: ComponentChildren;
}

/** A part of a view with a border. */
export function Panel({ title, text, actions, isFlush = false, children }: PanelProps) {
  return (
    <section class={isFlush ? "box panel-flush" : "box"}>
      {(title !== undefined || actions !== undefined) && (
        <div class="split panel-head">
          <div>
            {title !== undefined && <h2>{title}</h2>}
            {text !== undefined && <p>{text}</p>}
          </div>
          {actions !== undefined && <div class="row">{actions}</div>}
        </div>
      )}
      <div class="panel-body">{children}</div>
    </section>
  );
}

/** Panels side by side where there is room: equal columns, or two columns of which the first is wider. */
export function Columns({
  children,
  isWideFirst = false,
}: {
  children: ComponentChildren;
  isWideFirst?: boolean;
}) {
  return (
    <div class={isWideFirst ? "grid columns columns-wide-first" : "grid columns"}>{children}</div>
  );
}

/** A row of controls, such as filters and buttons. It wraps. */
export function Toolbar({ children }: { children: ComponentChildren }) {
  return <div class="row toolbar">{children}</div>;
}

/** Names with their values, one in a line, such as the details of a request. */
export function Facts({
  facts,
}: {
  facts: readonly (readonly [name: string, value: ComponentChildren])[];
}) {
  return (
    <dl class="facts">
      {facts.map(([name, value]) => (
        <div key={name}>
          <dt>{name}</dt>
          <dd>{value}</dd>
        </div>
      ))}
    </dl>
  );
}
