import type { TObject } from "@sinclair/typebox";
import { invalidRequest } from "./errors.ts";

/**
 * Refuses a parameter that the schema of a query does not list, and a parameter that appears twice: Elysia's query parser
 * keeps only the last one. Throws ApiError 400.
 */
export function checkParameters(schema: TObject, query: URLSearchParams): void {
  const accepted = Object.keys(schema.properties);
  if (![...query.keys()].every((name) => accepted.includes(name))) {
    const [last, ...others] = accepted.toReversed();
    const list = `${others.toReversed().join(", ")} and ${last}`;
    throw invalidRequest(`only the parameters ${list} are accepted`);
  }
  const repeated = accepted.find((name) => query.getAll(name).length > 1);
  if (repeated !== undefined) throw invalidRequest(`${repeated} stands twice`);
}
