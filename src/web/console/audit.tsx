import { signal } from "@preact/signals";
import type { AuditProgress, AuditResult } from "../../contract/operator/auditResult.ts";
import { failureFrom, type ApiFailure } from "../api.ts";
import { Button } from "../components/buttons.tsx";
import { Panel, ViewHead } from "../components/frame.tsx";
import { ErrorState, Notice } from "../components/states.tsx";
import { FreeText } from "../components/text.tsx";
import { Time } from "../components/values.tsx";
import { formats } from "../language.ts";
import { api } from "./session.ts";
import { text } from "./text.ts";

/** The audit that runs, and the result of the last one. They stay when the reader leaves the view. */
const running = signal<AbortController | undefined>(undefined);
const progress = signal<AuditProgress | undefined>(undefined);
const ended = signal<{ readonly result: AuditResult; readonly at: string } | undefined>(undefined);
const failure = signal<ApiFailure | undefined>(undefined);

async function runAudit(): Promise<void> {
  const mine = new AbortController();
  running.value = mine;
  progress.value = undefined;
  failure.value = undefined;
  try {
    for await (const one of api.events("/api/audit", {}, mine.signal)) {
      if (one.event === "progress") progress.value = one.json() as AuditProgress;
      if (one.event === "result")
        ended.value = { result: one.json() as AuditResult, at: new Date().toISOString() };
    }
  } catch (error) {
    if (!mine.signal.aborted) failure.value = failureFrom(error);
  } finally {
    running.value = undefined;
  }
}

/** Runs the audit, and shows what it proved or each problem. */
export function Audit() {
  const isRunning = running.value !== undefined;
  return (
    <>
      <ViewHead
        title={text.views.audit}
        text={text.audit.what}
        actions={
          isRunning ? (
            <Button onClick={() => running.value?.abort()}>{text.audit.stop}</Button>
          ) : (
            <Button tone="primary" onClick={() => void runAudit()}>
              {text.audit.run}
            </Button>
          )
        }
      />
      {isRunning && <Progress />}
      {failure.value && <ErrorState failure={failure.value} onRetry={() => void runAudit()} />}
      {ended.value && <Result {...ended.value} />}
      {!ended.value && <Claims title={text.audit.proves} />}
    </>
  );
}

function Claims({ title }: { title: string }) {
  return (
    <Panel title={title}>
      <ul>
        {text.audit.claims.map((claim) => (
          <li key={claim}>{claim}</li>
        ))}
      </ul>
    </Panel>
  );
}

function Progress() {
  const { done = 0, total = 0, what = "file" } = progress.value ?? {};
  const share = total > 0 ? done / total : 0;
  return (
    <Panel title={text.audit.running} text={text.audit.parts[what]}>
      <progress class="progress" max={1} value={share} aria-label={text.audit.running} />
      <p class="hint">{text.audit.rows(formats.count(done), formats.count(total))}</p>
    </Panel>
  );
}

function Result({ result, at }: { result: AuditResult; at: string }) {
  const { ok, accounts, requests, problems, notes } = result;
  return (
    <>
      <Panel title={text.audit.result} text={<Time at={at} />}>
        <Notice
          tone={ok ? "good" : "failure"}
          title={ok ? text.audit.consistent : text.audit.problems(problems.length)}
        >
          {text.audit.looked(formats.count(accounts), formats.count(requests))}
        </Notice>
        {[...problems, ...notes].map((line) => (
          <p key={line}>
            <FreeText text={line} />
          </p>
        ))}
        {!ok && <p>{text.audit.advice}</p>}
      </Panel>
      {ok && <Claims title={text.audit.proved} />}
    </>
  );
}
