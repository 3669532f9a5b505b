import { signal } from "@preact/signals";
import { render } from "preact";
import { ApiFailure } from "../../../src/web/api.ts";
import { Lines, StackedBars } from "../../../src/web/charts/chart.tsx";
import { stepsUntil, type Series } from "../../../src/web/charts/series.ts";
import { Button, CopyButton } from "../../../src/web/components/buttons.tsx";
import { CodeBlock } from "../../../src/web/components/codeBlock.tsx";
import { ConfirmChange } from "../../../src/web/components/dialog.tsx";
import {
  CheckField,
  SearchField,
  SelectField,
  SpanChoice,
  TextArea,
  TextField,
  type SpanName,
} from "../../../src/web/components/fields.tsx";
import { Change, Figure, Figures, Meter } from "../../../src/web/components/figures.tsx";
import { Columns, Facts, PageFrame, Panel, ViewHead } from "../../../src/web/components/frame.tsx";
import { useFilters } from "../../../src/web/components/filters.tsx";
import { ListView } from "../../../src/web/components/list.tsx";
import { EmptyState, ErrorState, Notice } from "../../../src/web/components/states.tsx";
import { createList } from "../../../src/web/list.ts";
import { Table, type Column } from "../../../src/web/components/table.tsx";
import { Tabs } from "../../../src/web/components/tabs.tsx";
import { Name, OutsideLink } from "../../../src/web/components/text.tsx";
import { Count, Duration, Money, Status, Time } from "../../../src/web/components/values.tsx";

// A page with each component in each of its states. components.test.ts looks at it.

/** Markup, a right-to-left override, a control character and 10,000 letters. */
const hostile = `\u202E\u0007<img src=x onerror=alert(1)>=1+1${"w".repeat(10_000)}`;

interface Row {
  readonly id: string;
  readonly at: string;
  readonly model: string;
  readonly tokens: number;
  readonly cost: string;
  readonly status: "done" | "failed" | "running";
}

const rows: readonly Row[] = [
  {
    id: "1",
    at: "2026-11-24T12:00:00Z",
    model: "large",
    tokens: 12_000,
    cost: "0.5",
    status: "done",
  },
  {
    id: "2",
    at: "2026-11-24T11:00:00Z",
    model: hostile,
    tokens: 9,
    cost: "12.000000001",
    status: "failed",
  },
  {
    id: "3",
    at: "2026-11-24T10:00:00Z",
    model: "small",
    tokens: 100,
    cost: "-3",
    status: "running",
  },
];

const columns: readonly Column<Row>[] = [
  { id: "at", head: "Time", kind: "time", value: ({ at }) => at },
  { id: "model", head: "Model", value: ({ model }) => model, isSortable: true },
  { id: "tokens", head: "Tokens", kind: "count", value: ({ tokens }) => tokens, isSortable: true },
  { id: "cost", head: "Cost", kind: "exactMoney", value: ({ cost }) => cost, isSortable: true },
  {
    id: "status",
    head: "Status",
    value: ({ status }) => status,
    cell: ({ status }) => <Status status={status} />,
  },
];

const times = stepsUntil(Date.parse("2026-11-24T12:00:00Z"), "day", 30);
const letters = ["a", "b", "c", "d", "e", "f", "g", "h", "i"];
const models: readonly Series[] = [hostile, ...letters].map((name, at) => ({
  name,
  values: times.map((_, day) => `${(day * 7) % (at + 5)}.000000001`),
}));
const latency: readonly Series[] = ["p50", "p95"].map((name, at) => ({
  name,
  values: times.map((_, day) => (day === 5 ? null : 300 + 900 * at + ((day * 31) % 100))),
}));

const span = signal<SpanName>("30d");
const [search, amount, note] = [signal(""), signal("500"), signal("")];
const isChecked = signal(true);
const choice = signal("one");
const tab = signal<"first" | "second">("first");
const isOpen = signal(false);
const [plain, optional, invalid] = [
  { label: "Amount", hint: "Roubles, such as 12.5" },
  { label: "Note", isOptional: true },
  { label: "Ref", error: "A ref has at most 64 characters." },
];
const failure = new ApiFailure(429, `Too many wrong codes. ${hostile}`, { retryAfter: 40 });
const retry = (): void => undefined;

const list = createList<Row>({
  load: async () => ({ data: rows, next: "older", searched_to: "2026-11-01T00:00:00Z" }),
  keyOf: ({ id }) => id,
});

function Gallery() {
  const filters = useFilters([
    { name: "typed", label: "Typed", kind: "text", suggestions: ["one"] },
    { name: "chosen", label: "Chosen", kind: "choice", options: [{ value: "", text: "Any" }] },
    { name: "since", until: "until", label: "Period", kind: "period" },
  ]);
  const views = ["overview", "accounts", "keys", "requests", "providers and models", "audit"];
  return (
    <PageFrame
      title="Gallery"
      views={views.map((id) => ({ id, text: id, show: () => undefined }))}
      actions={<Name text={hostile} />}
      foot={<span>The end</span>}
    >
      <ViewHead
        title={<Name text={hostile} />}
        text="Each component"
        back={{ href: "#/", text: "Back" }}
        actions={<SpanChoice value={span} />}
      />
      <Figures>
        <Figure
          isMain
          label="Charged"
          value={<Money amount="1234567890.123456789" />}
          change={<Change now="110" before="100" good="up" />}
        />
        <Figure label="Tokens" value={<Count value={182_400_112_000} />} note="of which 3 cached" />
        <Figure
          label="First byte"
          value={<Duration ms={1240} />}
          change={<Change now={1240} before={1000} good="down" />}
        />
        <Figure label="Loading" value={undefined} change={<Change now={1} before={1} />} />
      </Figures>
      <StackedBars caption="Spend" by="day" kind="money" times={times} series={models} />
      <Columns>
        <Lines caption="Latency" by="day" kind="duration" times={times} series={latency} />
        <StackedBars caption="Nothing" by="hour" kind="count" times={times} series={[]} />
        <StackedBars caption="Coming" by="hour" kind="count" times={undefined} series={[]} />
        <StackedBars
          caption="Failed"
          by="hour"
          kind="count"
          times={undefined}
          series={[]}
          failure={failure}
          onRetry={retry}
        />
      </Columns>
      <Panel title="Requests" isFlush actions={<SearchField label="Search" value={search} />}>
        <Table
          caption="Requests"
          isCaptionHidden
          columns={columns}
          rows={rows}
          keyOf={({ id }) => id}
          onOpen={() => (isOpen.value = true)}
          onMore={retry}
          canCopyCsv
          foot={{ at: "Total", cost: "9.500000001" }}
        />
      </Panel>
      <ListView
        caption="Listed"
        columns={columns}
        list={list}
        filters={filters}
        panel={{ title: "List" }}
        empty={<EmptyState />}
      />
      <Columns isWideFirst>
        <Panel title="Table on its way" isFlush>
          <Table caption="Coming rows" columns={columns} rows={undefined} keyOf={({ id }) => id} />
        </Panel>
        <Panel title="Older table" isFlush>
          <Table
            caption="Older rows"
            columns={columns}
            rows={rows}
            keyOf={({ id }) => id}
            hrefOf={({ id }) => `#/requests/${id}`}
            failure={failure}
            onRetry={retry}
            isLoading
            narrow="scroll"
          />
        </Panel>
        <Panel title="No rows">
          <Table caption="No rows" columns={columns} rows={[]} keyOf={({ id }) => id} />
        </Panel>
        <Panel title="States">
          <EmptyState>Create a key to start.</EmptyState>
          <ErrorState failure={failure} onRetry={retry} />
        </Panel>
      </Columns>
      <Panel title="Details">
        <Meter label="Budget" used="412.5" limit="500" usedText="412.50" limitText="500.00" />
        <Facts
          facts={[
            ["Label", <Name text={hostile} />],
            ["Expires", <Time at="2027-01-01T00:00:00Z" form="relative" />],
            ["Shop", <OutsideLink href="https://shop.example/">shop</OutsideLink>],
            ["No shop", <OutsideLink href="javascript:alert(1)">no shop</OutsideLink>],
          ]}
        />
        <Tabs
          label="Language"
          value={tab}
          tabs={[
            {
              id: "first",
              text: "First",
              content: () => <CodeBlock label="code" code={hostile} />,
            },
            { id: "second", text: "Second", content: () => <p>The second panel</p> },
          ]}
        />
      </Panel>
      <Panel title="Form">
        <TextField {...plain} value={amount} unit="₽" inputMode="decimal" />
        <TextField {...invalid} value={note} />
        <SelectField label="One of" value={choice} options={[{ value: "one", text: "One" }]} />
        <TextArea {...optional} value={note} />
        <CheckField label="Stay" value={isChecked} hint="Until the tab is closed" />
        <Button tone="primary">Primary</Button>
        <Button tone="danger">Danger</Button>
        <Button isDisabled>Disabled</Button>
        <Button isBusy>Busy</Button>
        <CopyButton text="copied text" label="the text" />
      </Panel>
      <Notice title="Info">Something to know</Notice>
      <Notice tone="good">Good</Notice>
      <Notice tone="warning" action={<Button size="small">Look</Button>}>
        {hostile}
      </Notice>
      <Notice tone="failure">Failed</Notice>
      {isOpen.value && (
        <ConfirmChange
          title={<Name text={hostile} />}
          confirm="Credit"
          onConfirm={() => Promise.reject(failure)}
          onClose={() => (isOpen.value = false)}
          figures={[
            { label: "Balance", before: <Money amount="1.5" />, after: <Money amount="501.5" /> },
          ]}
        >
          <TextField label="Credited amount" value={amount} isFirst />
          <CopyButton text="from the dialog" label="the amount" />
        </ConfirmChange>
      )}
    </PageFrame>
  );
}

render(<Gallery />, document.body);
