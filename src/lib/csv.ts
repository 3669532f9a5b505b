/**
 * Rows as CSV by https://www.rfc-editor.org/rfc/rfc4180. A text that a spreadsheet would run as a formula gets an
 * apostrophe in front. A negative number does not.
 */
export function csv(rows: readonly (readonly (string | number)[])[]): string {
  return rows.map((row) => row.map(cell).join(",")).join("\r\n");
}

/** These columns of the documents as CSV. Null becomes an empty cell. */
export function csvOf<Name extends string>(
  columns: readonly Name[],
  documents: readonly Readonly<Record<Name, string | number | boolean | null>>[],
): string {
  const cellOf = (value: string | number | boolean | null) =>
    typeof value === "number" ? value : String(value ?? "");
  return csv([columns, ...documents.map((one) => columns.map((name) => cellOf(one[name])))]);
}

function cell(value: string | number): string {
  if (typeof value === "number") return String(value);
  const isFormula = /^[=+\-@\t\r\n]/.test(value) && !/^-\d+(\.\d+)?$/.test(value);
  const safe = isFormula ? `'${value}` : value;
  return /[",\r\n]/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe;
}
