import { useSignal } from "@preact/signals";
import type { ComponentChildren } from "preact";
import { useLayoutEffect, useRef } from "preact/hooks";
import type { ApiFailure } from "../api.ts";
import { csv } from "../../lib/csv.ts";
import { parseRoubles } from "../../lib/money.ts";
import { formats, words } from "../language.ts";
import { Button, CopyButton } from "./buttons.tsx";
import { EmptyState, ErrorState, Skeleton, StaleNotice } from "./states.tsx";
import { Name } from "./text.tsx";
import { Count, Duration, Money, placesOf, Time } from "./values.tsx";

/**
 * What a column has. `money` is kopecks, `exactMoney` every digit with the points aligned; both take decimal texts of
 * roubles. `duration` is milliseconds, `time` is ISO 8601, `code` is text in figures of one width.
 */
export type ColumnKind = "text" | "code" | "money" | "exactMoney" | "count" | "duration" | "time";

export interface Column<Row> {
  readonly id: string;
  readonly head: string;
  readonly kind?: ColumnKind;
  /** What is sorted, what is copied as CSV, and what is shown unless there is `cell`. */
  readonly value: (row: Row) => string | number | null;
  readonly cell?: (row: Row) => ComponentChildren;
  readonly isSortable?: boolean;
  /** Not in the table but in its CSV, such as an id that nobody reads. */
  readonly isCsvOnly?: boolean;
  /** Not shown where a narrow table shows each row as a list. */
  readonly isDetail?: boolean;
}

export interface TableProps<Row> {
  /** What the table has. Screen readers say it. */
  readonly caption: string;
  /** True where a heading just above says the same. */
  readonly isCaptionHidden?: boolean;
  /** The first column names the row. */
  readonly columns: readonly Column<Row>[];
  /** Undefined while the rows load for the first time. */
  readonly rows: readonly Row[] | undefined;
  readonly keyOf: (row: Row) => string;
  /** Where the first cell of a row leads. The whole row can be clicked. */
  readonly hrefOf?: (row: Row) => string;
  /** What a click on a row does. With it the first cell is a button. */
  readonly onOpen?: (row: Row) => void;
  readonly failure?: ApiFailure | undefined;
  readonly isLoading?: boolean;
  readonly onRetry?: () => void;
  /** There are more rows: a button below loads them. */
  readonly onMore?: (() => void) | undefined;
  /** Rows of the skeleton. */
  readonly rowsExpected?: number;
  /** What is shown if there are no rows: `EmptyState`. */
  readonly empty?: ComponentChildren;
  readonly canCopyCsv?: boolean;
  /** Below 40 rem of room a row becomes a list of names and values. `scroll`: it stays a table that scrolls. */
  readonly narrow?: "stack" | "scroll";
  /** A last row with sums: values by the id of their column. It is not copied. */
  readonly foot?: Readonly<Record<string, string | number>>;
}

interface Order {
  readonly id: string;
  readonly isDescending: boolean;
}

/** A table of figures. Numbers are aligned right. Rows keep their order unless the reader sorts by a column. */
export function Table<Row>(props: TableProps<Row>) {
  const { caption, rows, failure, isLoading = false, onRetry } = props;
  const order = useSignal<Order | undefined>(undefined);
  if (rows === undefined && failure)
    return <ErrorState failure={failure} onRetry={onRetry} isRetrying={isLoading} />;
  if (rows?.length === 0 && !failure) return <>{props.empty ?? <EmptyState />}</>;
  const columns = props.columns.filter(({ isCsvOnly }) => isCsvOnly !== true);
  const sorted = rows && sortRows(rows, props.columns, order.value);
  return (
    <div class={`table table-${props.narrow ?? "stack"}`} aria-busy={isLoading}>
      {failure && <StaleNotice failure={failure} onRetry={onRetry} isRetrying={isLoading} />}
      <ScrollArea label={caption}>
        {/* Where it becomes a list, browsers forget that it is a table, so the roles are written out. */}
        <table role="table">
          <caption class={props.isCaptionHidden ? "unseen" : undefined}>{caption}</caption>
          <thead role="rowgroup">
            <tr role="row">
              {columns.map((column) => (
                <HeadCell
                  key={column.id}
                  column={column}
                  order={order.value}
                  onSort={(next) => (order.value = next)}
                />
              ))}
            </tr>
          </thead>
          {sorted ? (
            <Rows {...props} columns={columns} rows={sorted} />
          ) : (
            <SkeletonRows columns={columns} count={props.rowsExpected ?? 5} />
          )}
        </table>
      </ScrollArea>
      <TableFoot {...props} rows={sorted} />
    </div>
  );
}

function HeadCell<Row>({
  column,
  order,
  onSort,
}: {
  column: Column<Row>;
  order: Order | undefined;
  onSort: (order: Order) => void;
}) {
  const { id, head } = column;
  const sorted = order?.id === id ? order : undefined;
  // A figure is first sorted from its largest.
  const isDescending = sorted ? !sorted.isDescending : isNumeric(column) || column.kind === "time";
  return (
    <th
      role="columnheader"
      scope="col"
      class={[isNumeric(column) && "number", column.isDetail && "detail"].filter(Boolean).join(" ")}
      {...(sorted && { "aria-sort": sorted.isDescending ? "descending" : "ascending" })}
    >
      {column.isSortable === true ? (
        <button type="button" title={words.sort(head)} onClick={() => onSort({ id, isDescending })}>
          {head}
          <span class="sort-mark" aria-hidden="true">
            {sorted ? (sorted.isDescending ? "↓" : "↑") : ""}
          </span>
        </button>
      ) : (
        head
      )}
    </th>
  );
}

function Rows<Row>({
  columns,
  rows,
  keyOf,
  hrefOf,
  onOpen,
  foot,
}: TableProps<Row> & { rows: readonly Row[] }) {
  const places = columns.map((column) =>
    column.kind === "exactMoney"
      ? placesOf([...rows.map((row) => text(column.value(row))), text(foot?.[column.id] ?? null)])
      : 0,
  );
  const opens = hrefOf !== undefined || onOpen !== undefined;
  return (
    <>
      <tbody role="rowgroup">
        {rows.map((row) => (
          <tr role="row" key={keyOf(row)} class={opens ? "opens" : undefined}>
            {columns.map((column, at) => {
              const content =
                column.cell?.(row) ?? shownValue(column, column.value(row), places[at] ?? 0);
              const shared = {
                key: column.id,
                class: cellClass(column),
                "data-head": column.head,
              };
              if (at > 0)
                return (
                  <td role="cell" {...shared}>
                    {content}
                  </td>
                );
              return (
                <th role="rowheader" scope="row" {...shared}>
                  {opener(content, hrefOf?.(row), onOpen && (() => onOpen(row)))}
                </th>
              );
            })}
          </tr>
        ))}
      </tbody>
      {foot && (
        <tfoot role="rowgroup">
          <tr role="row">
            {columns.map((column, at) => {
              const value = foot[column.id];
              return (
                <td role="cell" key={column.id} class={cellClass(column)} data-head={column.head}>
                  {value !== undefined && shownValue(column, value, places[at] ?? 0)}
                </td>
              );
            })}
          </tr>
        </tfoot>
      )}
    </>
  );
}

/** The link or the button of a row. It covers the row. */
function opener(
  content: ComponentChildren,
  href: string | undefined,
  onClick: (() => void) | undefined,
): ComponentChildren {
  if (href !== undefined) {
    return (
      <a class="opener" href={href}>
        {content}
      </a>
    );
  }
  if (onClick === undefined) return content;
  return (
    <button type="button" class="opener" onClick={onClick}>
      {content}
    </button>
  );
}

function SkeletonRows<Row>({ columns, count }: { columns: readonly Column<Row>[]; count: number }) {
  return (
    <tbody role="rowgroup">
      {Array.from({ length: count }, (_, at) => (
        <tr role="row" key={at}>
          {columns.map((column) => (
            <td role="cell" key={column.id} class={cellClass(column)} data-head={column.head}>
              <Skeleton characters={isNumeric(column) ? 7 : 14} />
            </td>
          ))}
        </tr>
      ))}
    </tbody>
  );
}

function TableFoot<Row>({
  caption,
  columns,
  rows,
  onMore,
  isLoading = false,
  canCopyCsv = false,
}: TableProps<Row>) {
  if (onMore === undefined && !canCopyCsv) return null;
  return (
    <div class="table-foot">
      {onMore && (
        <Button size="small" onClick={onMore} isBusy={isLoading}>
          {words.more}
        </Button>
      )}
      {canCopyCsv && rows && (
        <CopyButton
          text={() => tableCsv(columns, rows)}
          label={caption}
          action={words.copyCsv}
          done={words.copiedRows(rows.length)}
        />
      )}
    </div>
  );
}

/** The rows as CSV with a head, with exact values. */
export function tableCsv<Row>(columns: readonly Column<Row>[], rows: readonly Row[]): string {
  return csv([
    columns.map(({ head }) => head),
    ...rows.map((row) => columns.map(({ value }) => value(row) ?? "")),
  ]);
}

function shownValue<Row>(
  { kind = "text" }: Column<Row>,
  value: string | number | null,
  places: number,
): ComponentChildren {
  switch (kind) {
    case "money":
      return <Money amount={text(value)} />;
    case "exactMoney":
      return <Money amount={text(value)} isExact places={places} />;
    case "count":
      return <Count value={typeof value === "string" ? BigInt(value) : value} />;
    case "duration":
      return <Duration ms={value === null ? null : Number(value)} />;
    case "time":
      return <Time at={text(value)} form="short" />;
    case "code":
    case "text":
      return value === null ? words.none : <Name text={String(value)} isCode={kind === "code"} />;
  }
}

function text(value: string | number | null): string | null {
  return value === null ? null : String(value);
}

function isNumeric<Row>({ kind }: Column<Row>): boolean {
  return kind === "money" || kind === "exactMoney" || kind === "count" || kind === "duration";
}

/** Where a row is a list, two of its values share a line, unless they are `wide`. */
function cellClass<Row>({ kind = "text", isDetail }: Column<Row>): string {
  const classes = {
    text: "wide",
    code: "wide",
    time: "moment",
    money: "number",
    exactMoney: "number wide",
    count: "number",
    duration: "number",
  } as const;
  return isDetail === true ? `${classes[kind]} detail` : classes[kind];
}

/** Rows without a value come last in both directions. */
function sortRows<Row>(
  rows: readonly Row[],
  columns: readonly Column<Row>[],
  order: Order | undefined,
): readonly Row[] {
  const column = columns.find(({ id }) => id === order?.id);
  if (column === undefined || order === undefined) return rows;
  const collator = new Intl.Collator(formats.locale, { numeric: true });
  const sign = order.isDescending ? -1 : 1;
  return rows.toSorted((a, b) => {
    const [one, two] = [column.value(a), column.value(b)];
    if (one === null || two === null) return Number(one === null) - Number(two === null);
    return (
      sign *
      (isNumeric(column)
        ? compareNumbers(one, two)
        : collator.compare(text(one) ?? "", text(two) ?? ""))
    );
  });
}

function compareNumbers(one: string | number, two: string | number): number {
  if (typeof one === "number" && typeof two === "number") return one - two;
  const [a, b] = [parseRoubles(String(one)) ?? 0n, parseRoubles(String(two)) ?? 0n];
  return a < b ? -1 : a > b ? 1 : 0;
}

/** A place that scrolls by itself. The keyboard reaches it only if there is something to scroll. */
export function ScrollArea({ label, children }: { label: string; children: ComponentChildren }) {
  const area = useRef<HTMLDivElement>(null);
  const isScrolling = useSignal(false);
  useLayoutEffect(() => {
    const element = area.current;
    if (!element) return;
    const measure = (): void => {
      isScrolling.value =
        element.scrollWidth > element.clientWidth || element.scrollHeight > element.clientHeight;
    };
    const observer = new ResizeObserver(measure);
    observer.observe(element);
    if (element.firstElementChild) observer.observe(element.firstElementChild);
    return () => observer.disconnect();
  }, []);
  return (
    <div
      ref={area}
      class="scroll"
      {...(isScrolling.value && { tabIndex: 0, role: "region", "aria-label": label })}
    >
      {children}
    </div>
  );
}
