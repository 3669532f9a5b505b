/**
 * Rows as CSV by https://www.rfc-editor.org/rfc/rfc4180. A text that a spreadsheet would take for a
 * formula gets an apostrophe in front; numbers that we wrote ourselves never begin like one.
 */
export function csv(rows: readonly (readonly (string | number)[])[]): string {
  return rows.map((row) => row.map(cell).join(",")).join("\r\n");
}

function cell(value: string | number): string {
  if (typeof value === "number") return String(value);
  const safe = /^[=+\-@\t\r\n]/.test(value) ? `'${value}` : value;
  return /[",\r\n]/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe;
}
