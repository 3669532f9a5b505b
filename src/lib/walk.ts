import { isJsonObject } from "./json.ts";

/**
 * Visits a JSON value and what is in it, at any depth and in no order: members with their key, items and the value
 * itself without one. `visit` says whether to go on into what it was given. Strangers choose how deep they nest: the
 * stack is our own.
 */
export function walk(
  value: unknown,
  visit: (value: unknown, key: string | undefined) => boolean,
): void {
  const open: unknown[] = visit(value, undefined) ? [value] : [];
  while (open.length > 0) {
    const next = open.pop();
    if (Array.isArray(next)) {
      for (const item of next as unknown[]) if (visit(item, undefined)) open.push(item);
    } else if (isJsonObject(next)) {
      // Three times as fast as its entries would be.
      for (const key in next) if (visit(next[key], key)) open.push(next[key]);
    }
  }
}
