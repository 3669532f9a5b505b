import { useSignal } from "@preact/signals";
import type { Model } from "../../contract/models.ts";
import { CopyButton } from "../components/buttons.tsx";
import { SearchField } from "../components/fields.tsx";
import { Panel, Toolbar, ViewHead } from "../components/frame.tsx";
import { EmptyState } from "../components/states.tsx";
import { Table, type Column } from "../components/table.tsx";
import { visibleText } from "../components/text.tsx";
import { formats, words as shared } from "../language.ts";
import { hrefOf } from "../router.ts";
import { inWords } from "./failures.ts";
import type { Holding } from "./holding.ts";
import { furtherPricesText } from "../receipt/pricing.ts";
import { priceOf } from "../receipt/multiplication.ts";
import { text } from "./text.ts";

const words = text.models;

/** The models that the key may use, with their prices. */
export function Models({ holding }: { holding: Holding }) {
  const search = useSignal("");
  const models = holding.models();
  const wanted = search.value.trim().toLowerCase();
  const rows = models.data.value?.filter(({ id, owned_by, aliases = [] }) =>
    [id, owned_by, ...aliases].join(" ").toLowerCase().includes(wanted),
  );
  const failure = models.failure.value;
  return (
    <>
      <ViewHead title={text.views.models} text={words.intro} />
      <Toolbar>
        <SearchField label={words.search} value={search} />
        <span class="unseen" role="status">
          {wanted !== "" && rows && words.found(rows.length)}
        </span>
      </Toolbar>
      <Panel isFlush>
        <Table
          caption={text.views.models}
          isCaptionHidden
          columns={columns}
          rows={rows}
          keyOf={({ id }) => id}
          failure={failure && inWords(failure)}
          isLoading={models.isLoading.value}
          onRetry={models.reload}
          empty={<EmptyState title={wanted === "" ? words.none : shared.nothingFound} />}
          canCopyCsv
        />
      </Panel>
    </>
  );
}

/** The prices of the other tiers, and the next ones. */
function furtherTexts({ next, ...model }: Model): readonly string[] {
  const lines = furtherPricesText(model);
  if (next === undefined) return lines;
  const { from, rub_input_per_1m: input = 0, rub_output_per_1m: output = 0 } = next;
  const first = words.nextPrices(
    formats.date(Date.parse(from)),
    `${priceOf(input)} / ${priceOf(output)}`,
  );
  return lines.concat(first);
}

const columns: readonly Column<Model>[] = [
  {
    id: "id",
    head: words.model,
    value: ({ id }) => id,
    cell: ({ id }) => (
      <CopyButton text={id} label={visibleText(id)} done={words.copied(visibleText(id))}>
        <bdi class="clip code">{visibleText(id)}</bdi>
        <svg class="copy-mark" viewBox="0 0 16 16" aria-hidden="true">
          <path d="M3 2h7v2M3 2v9h2M6 5h7v9H6z" />
        </svg>
      </CopyButton>
    ),
    isSortable: true,
  },
  { id: "owner", head: words.owner, value: ({ owned_by }) => owned_by, isSortable: true },
  {
    id: "input",
    head: words.input,
    kind: "exactMoney",
    value: ({ rub_input_per_1m }) => priceOf(rub_input_per_1m),
    isSortable: true,
  },
  {
    id: "output",
    head: words.output,
    kind: "exactMoney",
    value: ({ rub_output_per_1m }) => priceOf(rub_output_per_1m),
    isSortable: true,
  },
  {
    id: "further",
    head: words.further,
    value: (model) => furtherTexts(model).join("; ") || null,
    cell: (model) => {
      const lines = furtherTexts(model);
      if (lines.length === 0) return shared.none;
      return (
        <ul>
          {lines.map((line) => (
            <li key={line}>{visibleText(line)}</li>
          ))}
        </ul>
      );
    },
  },
  {
    id: "context",
    head: words.context,
    kind: "count",
    value: ({ context_window }) => context_window,
    isSortable: true,
  },
  {
    id: "most",
    head: words.most,
    kind: "count",
    value: ({ max_output_tokens }) => max_output_tokens ?? null,
    cell: ({ max_output_tokens }) => (max_output_tokens === undefined ? shared.none : undefined),
    isSortable: true,
  },
  {
    id: "endpoints",
    head: words.endpoints,
    value: ({ endpoints }) => endpoints.join(" "),
    cell: ({ endpoints }) => (
      <span class="row hint endpoints">
        {endpoints.map((endpoint) => (
          <code key={endpoint}>{endpoint}</code>
        ))}
      </span>
    ),
  },
  {
    id: "try",
    head: words.tryIt,
    value: () => null,
    cell: ({ id, endpoints }) =>
      endpoints.includes("chat") ? (
        <a
          class="one-line"
          href={hrefOf(["try"], { model: id })}
          aria-label={words.tryModel(visibleText(id))}
        >
          {text.views.try}
        </a>
      ) : (
        shared.none
      ),
  },
];
