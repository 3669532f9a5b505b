import type { RequestDetailDocument } from "../../../contract/operator/request.ts";
import { Panel } from "../../components/frame.tsx";
import { EmptyState } from "../../components/states.tsx";
import { Tag } from "../../components/status.tsx";
import { Name } from "../../components/text.tsx";
import { Duration } from "../../components/values.tsx";
import { text } from "../text.ts";

const words = text.request;

/** The attempts of a request one after the other, each as a bar as long as it took. */
export function Attempts({ request }: { request: RequestDetailDocument }) {
  const { attempts } = request;
  const tookMs = attempts.reduce((sum, attempt) => sum + attempt.duration_ms, 0);
  const spanMs = Math.max(tookMs, request.duration_ms ?? 0, 1);
  let startMs = 0;
  return (
    <Panel title={words.attempts} text={words.attemptsNote}>
      {attempts.length === 0 ? (
        <EmptyState title={words.noAttempts} />
      ) : (
        <ol class="stack timeline">
          {attempts.map((attempt) => {
            const start = (startMs / spanMs) * 100;
            const width = (attempt.duration_ms / spanMs) * 100;
            startMs += attempt.duration_ms;
            const isOk = attempt.outcome === "ok";
            return (
              <li key={attempt.n}>
                <span class="muted">{attempt.n}</span>
                <span class="timeline-provider">
                  <Name text={attempt.provider} />
                </span>
                <Tag tone={isOk ? "good" : "bad"}>
                  <Name text={isOk ? words.answered : attempt.outcome} />
                </Tag>
                <span>
                  <Duration ms={attempt.duration_ms} />
                </span>
                <span class="timeline-track" aria-hidden="true">
                  <span
                    class={isOk ? undefined : "timeline-failed"}
                    style={{ marginInlineStart: `${start}%`, inlineSize: `${width}%` }}
                  />
                </span>
              </li>
            );
          })}
        </ol>
      )}
    </Panel>
  );
}
