import { batch, useComputed, useSignal, type Signal } from "@preact/signals";
import { words } from "../language.ts";
import { Field } from "./fields.tsx";

/** Durations until now, as the API takes them. */
const periods = ["1h", "24h", "7d", "30d"] as const;

export interface PeriodFieldsProps {
  readonly label: string;
  /** A duration until now, or a time in ISO 8601. Empty: no limit. */
  readonly since: Signal<string>;
  readonly until: Signal<string>;
  readonly sinceError: string | undefined;
  readonly untilError: string | undefined;
}

/** The time filter: a usual period, or two times in the time zone of the browser. */
export function PeriodFields({ label, since, until, sinceError, untilError }: PeriodFieldsProps) {
  const isChosen = useSignal(false);
  const isPeriod = useComputed(
    () => until.value === "" && (periods as readonly string[]).includes(since.value),
  );
  const hasTimes = useComputed(
    () => isChosen.value || (!isPeriod.value && (since.value !== "" || until.value !== "")),
  );
  const choose = (value: string): void =>
    batch(() => {
      isChosen.value = value === "times";
      if (value === "times") {
        const length = lengthsMs[since.value];
        if (length !== undefined) since.value = new Date(Date.now() - length).toISOString();
        return;
      }
      since.value = value;
      until.value = "";
    });
  return (
    <>
      <Field label={label}>
        {(control) => (
          <select
            {...control}
            value={hasTimes.value ? "times" : since.value}
            onChange={(event) => choose(event.currentTarget.value)}
          >
            <option value="">{words.anyTime}</option>
            {periods.map((period) => (
              <option key={period} value={period}>
                {words.periods[period]}
              </option>
            ))}
            <option value="times">{words.times}</option>
          </select>
        )}
      </Field>
      {hasTimes.value && (
        <div class="grid fields">
          <TimeField label={words.since} value={since} error={sinceError} />
          <TimeField label={words.until} value={until} error={untilError} />
        </div>
      )}
    </>
  );
}

function TimeField({
  label,
  value,
  error,
}: {
  label: string;
  value: Signal<string>;
  error: string | undefined;
}) {
  return (
    <Field label={label} error={error}>
      {(control) => (
        <input
          {...control}
          type="datetime-local"
          value={localOf(value.value)}
          onChange={(event) => (value.value = isoOf(event.currentTarget.value))}
        />
      )}
    </Field>
  );
}

const hourMs = 3_600_000;
const lengthsMs: Readonly<Record<string, number>> = {
  "1h": hourMs,
  "24h": 24 * hourMs,
  "7d": 7 * 24 * hourMs,
  "30d": 30 * 24 * hourMs,
};

/** The time as a field of type `datetime-local` has it: `2026-11-24T09:30`. */
function localOf(iso: string): string {
  const atMs = Date.parse(iso);
  if (Number.isNaN(atMs)) return "";
  const zoneMs = new Date(atMs).getTimezoneOffset() * 60_000;
  return new Date(atMs - zoneMs).toISOString().slice(0, "2026-11-24T09:30".length);
}

function isoOf(local: string): string {
  const atMs = Date.parse(local);
  return Number.isNaN(atMs) ? "" : new Date(atMs).toISOString();
}
