import { useSignal } from "@preact/signals";
import { useEffect, useLayoutEffect, useRef } from "preact/hooks";
import { failureFrom, type ApiFailure } from "../api.ts";
import { Button } from "../components/buttons.tsx";
import { CheckField, TextField } from "../components/fields.tsx";
import { PageFrame } from "../components/frame.tsx";
import { FailureText, Notice } from "../components/states.tsx";
import { inWords } from "./failures.ts";
import { enter, isRefused } from "./session.ts";
import { text } from "./text.ts";

export interface LoginProps {
  /** A key to open at once. */
  readonly start: { readonly key: string; readonly isKept: boolean } | undefined;
}

/** Asks for the key, and opens the page with it. */
export function Login({ start }: LoginProps) {
  const key = useSignal(start?.key ?? "");
  const isKept = useSignal(start?.isKept ?? false);
  const isShown = useSignal(false);
  const isBusy = useSignal(false);
  const problem = useSignal<ApiFailure | "empty" | undefined>(undefined);
  const form = useRef<HTMLFormElement>(null);
  const words = text.login;

  const open = async (): Promise<void> => {
    const candidate = key.value.trim();
    if (isBusy.value) return;
    if (candidate === "") {
      problem.value = "empty";
      return;
    }
    isBusy.value = true;
    problem.value = undefined;
    try {
      await enter(candidate, isKept.value);
    } catch (error) {
      problem.value = failureFrom(error);
      isBusy.value = false;
      form.current?.querySelector("input")?.focus();
    }
  };
  useLayoutEffect(() => form.current?.querySelector("input")?.focus(), []);
  useEffect(() => {
    if (start !== undefined) void open();
  }, []);

  const failure = problem.value;
  return (
    <PageFrame title={text.title} heading={words.title}>
      <div class="stack login">
        <h1>{words.title}</h1>
        <p>{words.intro}</p>
        {isRefused.value && failure === undefined && (
          <Notice tone="warning" title={words.refused}>
            {words.refusedWhy}
          </Notice>
        )}
        <form
          class="box stack"
          ref={form}
          onSubmit={(event) => {
            event.preventDefault();
            void open();
          }}
        >
          <TextField
            label={words.key}
            value={key}
            type={isShown.value ? "text" : "password"}
            placeholder={words.placeholder}
            error={failure === "empty" ? words.empty : undefined}
            isCode
          />
          <Button tone="quiet" size="small" onClick={() => (isShown.value = !isShown.value)}>
            {isShown.value ? words.hide : words.show}
          </Button>
          <CheckField label={words.keep} hint={words.keepHint} value={isKept} />
          {failure !== undefined && failure !== "empty" && (
            <Notice tone="failure" title={failure.status === 401 ? words.wrong : words.failed}>
              {failure.status === 401 ? words.wrongWhy : <FailureText failure={inWords(failure)} />}
            </Notice>
          )}
          <Button type="submit" tone="primary" isBusy={isBusy.value}>
            {isBusy.value ? words.opening : words.open}
          </Button>
        </form>
        <p class="hint">{words.privacy}</p>
      </div>
    </PageFrame>
  );
}
