import { Type, type TSchema } from "@sinclair/typebox";
import { errorAnswers } from "../contract/errorSchemas.ts";

type Schemas = Readonly<Record<string, TSchema>>;

/** The schemas of a route, and in `detail` what /openapi.json adds to them. */
interface Declaration {
  /** The label of the route in metrics. Without one it is "other". */
  readonly endpoint?: string;
  readonly body?: TSchema;
  readonly query?: TSchema;
  readonly response: Schemas;
}

/**
 * Gives the declaration copies of its schemas. Every route uses it. Elysia 1.4.30 writes `additionalProperties: false`
 * into the schemas that a route declares. In a shared schema this would refuse passthrough fields.
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

/** Any object. Without `additionalProperties` Elysia writes `false` there. */
const document = Type.Unsafe<object>({
  ...Type.Any(),
  type: "object",
  additionalProperties: true,
});

/** GET /openapi.json. */
export const getDescription = declaredRoute({
  detail: {
    operationId: "getDescription",
    tags: ["service"],
    summary: "Returns this document",
    security: [],
    responses: {
      200: { description: "An OpenAPI document. It does not depend on the gateway's config." },
    },
  },
  response: { 200: document, ...errorAnswers(400) },
});
