import { batch, useComputed } from "@preact/signals";
import { requestStatuses } from "../../../contract/account/requestStatus.ts";
import { Button } from "../../components/buttons.tsx";
import { SelectField } from "../../components/fields.tsx";
import { Panel, ViewHead } from "../../components/frame.tsx";
import { EmptyState } from "../../components/states.tsx";
import { words as shared } from "../../language.ts";
import { createResource, useResource } from "../../resource.ts";
import { amountText } from "../amounts.ts";
import { FilterField, useFilter } from "../lists/filters.tsx";
import { call } from "../call.ts";
import { text } from "../text.ts";
import { PeriodFields } from "./period.tsx";
import { createRequestList, RequestTable } from "./requestTable.tsx";

const words = text.requests;

/** The most accounts that are suggested. */
const SUGGESTED_MAX = 500;

const statuses = ["", ...requestStatuses] as const;
const kinds = ["", "estimated", "written_off"] as const;

/** All requests, with filters. */
export function Requests() {
  const filters = {
    account: useFilter("account"),
    key: useFilter("key"),
    model: useFilter("model"),
    provider: useFilter("provider"),
    status: useFilter("status", statuses),
    since: useFilter("since"),
    until: useFilter("until"),
    cost_min: useFilter("cost_min"),
    cost_max: useFilter("cost_max"),
    only: useFilter("only", kinds),
  };
  const { status, only, cost_min: costMin, cost_max: costMax } = filters;
  const list = useResource(() =>
    createRequestList(() => ({
      ...Object.fromEntries(Object.entries(filters).map(([name, { value }]) => [name, value])),
      cost_min: amountText(costMin.value),
      cost_max: amountText(costMax.value),
    })),
  );
  const suggestions = useSuggestions();
  const isFiltered = useComputed(() => Object.values(filters).some(({ value }) => value !== ""));
  const clear = (): void =>
    batch(() => {
      for (const filter of Object.values(filters)) filter.value = "";
    });
  const failure = list.failure.value;
  const errorOf = (name: keyof typeof filters): string | undefined =>
    failure?.fields["field"] === name ? failure.message : undefined;
  return (
    <>
      <ViewHead
        title={text.views.requests}
        text={words.intro}
        actions={
          isFiltered.value && (
            <Button onClick={clear} tone="quiet">
              {words.clear}
            </Button>
          )
        }
      />
      <div class="filters" role="search" aria-label={words.filters}>
        <FilterField
          label={words.account}
          value={filters.account}
          suggestions={suggestions.accounts}
        />
        <FilterField label={words.key} value={filters.key} error={errorOf("key")} />
        <FilterField label={words.model} value={filters.model} suggestions={suggestions.models} />
        <FilterField
          label={words.provider}
          value={filters.provider}
          suggestions={suggestions.providers}
        />
        <SelectField
          label={words.status}
          value={status}
          options={statuses.map((value) => ({
            value,
            text: value === "" ? words.any : shared.status[value],
          }))}
        />
        <SelectField
          label={words.only}
          value={only}
          options={kinds.map((value) => ({ value, text: words.kinds[value] }))}
        />
        <FilterField
          label={words.costMin}
          value={costMin}
          inputMode="decimal"
          error={errorOf("cost_min")}
        />
        <FilterField
          label={words.costMax}
          value={costMax}
          inputMode="decimal"
          error={errorOf("cost_max")}
        />
        <PeriodFields
          since={filters.since}
          until={filters.until}
          sinceError={errorOf("since")}
          untilError={errorOf("until")}
        />
      </div>
      <Panel isFlush>
        <RequestTable
          list={list}
          rowsExpected={14}
          empty={
            isFiltered.value ? (
              <EmptyState title={shared.nothingFound}>
                <Button onClick={clear}>{words.clear}</Button>
              </EmptyState>
            ) : undefined
          }
        />
      </Panel>
    </>
  );
}

/** Names that the filters suggest. They are no more than a help, so a failure is not shown. */
function useSuggestions() {
  const accounts = useResource(() =>
    createResource((abort) => call("GET /api/accounts", { limit: SUGGESTED_MAX }, abort)),
  );
  const models = useResource(() => createResource((abort) => call("GET /api/models", {}, abort)));
  const rows = models.data.value?.data ?? [];
  const providers = rows.flatMap(({ routes }) => routes.map(({ provider }) => provider));
  return {
    accounts: accounts.data.value?.data.map(({ name }) => name) ?? [],
    models: rows.map(({ id }) => id),
    providers: [...new Set(providers)].toSorted(),
  };
}
