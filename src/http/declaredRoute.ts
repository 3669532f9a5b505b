import type { TSchema } from "@sinclair/typebox";

type Schemas = Readonly<Record<string, TSchema>>;

/** What a route declares: its schemas, and what /openapi.json says of it beside them. */
interface Declaration {
  readonly body?: TSchema;
  readonly query?: TSchema;
  readonly response: Schemas;
}

/**
 * The declaration with schemas of its own. Elysia 1.4.30 writes `additionalProperties: false` into the schemas that a
 * route declares. In a schema of src/contract that would refuse the fields of a client that are to be forwarded.
 */
export function declaredRoute<Route extends Declaration>(route: Route): Route {
  const { body, query, response } = route;
  const entries = Object.entries(response).map(([status, schema]) => [status, { ...schema }]);
  return {
    ...route,
    ...(body ? { body: { ...body } } : {}),
    ...(query ? { query: { ...query } } : {}),
    response: Object.fromEntries(entries) as Route["response"],
  };
}
