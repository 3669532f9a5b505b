import type { ComponentChildren } from "preact";
import type { ApiFailure } from "../api.ts";
import { words } from "../language.ts";
import type { Resource } from "../resource.ts";
import { Button } from "./buttons.tsx";

export interface NoticeProps {
  readonly tone?: "info" | "good" | "warning" | "failure";
  readonly title?: ComponentChildren;
  readonly children?: ComponentChildren;
  /** A button or a link at the end. */
  readonly action?: ComponentChildren;
}

/** Something to know, in the flow of the page. A failure is read out at once. */
export function Notice({ tone = "info", title, children, action }: NoticeProps) {
  return (
    <div class={`split notice notice-${tone}`} role={tone === "failure" ? "alert" : undefined}>
      <div class="notice-text">
        {title !== undefined && <strong>{title}</strong>}
        {children !== undefined && <div>{children}</div>}
      </div>
      {action}
    </div>
  );
}

/** A grey bar in place of a text that is not there yet. It has the height of a line of that text. */
export function Skeleton({ characters = 8 }: { characters?: number }) {
  return <span class="skeleton" style={{ width: `${characters}ch` }} aria-hidden="true" />;
}

/** A grey block in place of a panel; `rem` is its height. Without it, it fills the place that it is in. */
export function SkeletonBlock({ rem }: { rem?: number }) {
  const style = { height: rem === undefined ? "100%" : `${rem}rem` };
  return <div class="skeleton-block" style={style} aria-hidden="true" />;
}

export interface EmptyStateProps {
  readonly title?: string;
  /** What to do so that it does not stay empty. */
  readonly children?: ComponentChildren;
}

export function EmptyState({ title = words.empty, children }: EmptyStateProps) {
  return (
    <div class="stack state">
      <p class="state-title">{title}</p>
      {children !== undefined && <div class="state-text">{children}</div>}
    </div>
  );
}

export interface ErrorStateProps {
  readonly failure: ApiFailure;
  readonly onRetry?: (() => void) | undefined;
  readonly isRetrying?: boolean;
}

/** Shown in place of data that could not be loaded. */
export function ErrorState({ failure, onRetry, isRetrying = false }: ErrorStateProps) {
  return (
    <div class="stack state" role="alert">
      <p class="state-title">{words.loadFailed}</p>
      <p class="state-text">
        <FailureText failure={failure} />
      </p>
      {onRetry && (
        <Button onClick={onRetry} isBusy={isRetrying}>
          {words.retry}
        </Button>
      )}
    </div>
  );
}

/** The words of a failure, with when to try again. */
export function FailureText({ failure }: { failure: ApiFailure }) {
  const { message, retryAfter } = failure;
  return (
    <>
      {message}
      {retryAfter !== undefined && ` ${words.retryAfter(retryAfter)}`}
    </>
  );
}

export interface LoadedProps<Data> {
  readonly resource: Resource<Data>;
  /** Has the size of what `children` draws, so that nothing jumps. */
  readonly skeleton: ComponentChildren;
  readonly children: (data: Data) => ComponentChildren;
}

/**
 * What a resource holds: the skeleton at first, then the data. Data stay while they load again, and with a notice if
 * that fails. An error in their place only if there never were any.
 */
export function Loaded<Data>({ resource, skeleton, children }: LoadedProps<Data>) {
  const [data, failure, isLoading] = [
    resource.data.value,
    resource.failure.value,
    resource.isLoading.value,
  ];
  if (data === undefined) {
    if (failure)
      return <ErrorState failure={failure} onRetry={resource.reload} isRetrying={isLoading} />;
    return (
      <div aria-busy="true">
        <span class="unseen">{words.loading}</span>
        {skeleton}
      </div>
    );
  }
  return (
    <>
      {failure && (
        <StaleNotice failure={failure} onRetry={resource.reload} isRetrying={isLoading} />
      )}
      {children(data)}
    </>
  );
}

/** The notice above data that could not be loaded again. */
export function StaleNotice({ failure, onRetry, isRetrying = false }: ErrorStateProps) {
  return (
    <Notice
      tone="warning"
      title={words.shownEarlier}
      action={
        onRetry && (
          <Button size="small" onClick={onRetry} isBusy={isRetrying}>
            {words.retry}
          </Button>
        )
      }
    >
      <FailureText failure={failure} />
    </Notice>
  );
}
