import type { TObject, TSchema } from "@sinclair/typebox";
import { createSchemaWriter, type PlainSchema, type SchemaWriter } from "./plainSchema.ts";

/** Parts of an operation of the document that a route declares beside its schemas. */
export interface RouteDetail {
  /** True: not in the document. */
  readonly hide?: boolean;
  readonly operationId?: string;
  readonly security?: readonly unknown[];
  readonly requestBody?: { readonly description?: string };
  /** By status. One that is not in the route's schemas, such as `default`, is written as it is. */
  readonly responses?: Readonly<Record<string, Readonly<Record<string, unknown>>>>;
}

/** A route of the server with its schemas. Its path ends in `*` if its last parameter may contain slashes. */
export interface DeclaredRoute {
  readonly method: string;
  readonly path: string;
  readonly hooks: {
    readonly detail: RouteDetail;
    readonly params?: TObject;
    readonly query?: TObject;
    readonly body?: TSchema;
    readonly response: Readonly<Record<string, TSchema>>;
  };
}

/** What a document says besides its routes. */
export interface ApiDescription {
  /** The members before the paths: title, introduction, tags, what a request needs. */
  readonly head: Readonly<Record<string, unknown>>;
  readonly securitySchemes: Readonly<Record<string, object>>;
  /** The schemas that are components. All others are written where they are used. */
  readonly schemas: Readonly<Record<string, TSchema>>;
  components(schemas: SchemaWriter): Readonly<Record<string, object>>;
  /** The headers of the answers of a route. A public route needs no key. */
  headers(isPublic: boolean): Readonly<Record<string, object>>;
  /** Describes an error answer. Undefined: `status` is not an error. */
  error(status: string, schema: TSchema, schemas: SchemaWriter): object | undefined;
}

/**
 * The description of an API in JSON. It is derived from the schemas that the routes declare, and does not depend on the
 * config. It uses OpenAPI 3.1 (https://spec.openapis.org/oas/v3.1.1.html), because TypeBox's schemas are valid there.
 */
export function openapiText(api: ApiDescription, routes: readonly DeclaredRoute[]): string {
  const schemas = createSchemaWriter(api.schemas);
  return JSON.stringify({
    openapi: "3.1.1",
    ...api.head,
    paths: paths(api, routes, schemas),
    components: {
      securitySchemes: api.securitySchemes,
      schemas: schemas.components(),
      ...api.components(schemas),
    },
  });
}

/** All paths with their operations, without HEAD. */
function paths(
  api: ApiDescription,
  routes: readonly DeclaredRoute[],
  schemas: SchemaWriter,
): Readonly<Record<string, object>> {
  const paths: Record<string, Record<string, object>> = {};
  for (const route of routes.filter(({ hooks }) => !hooks.detail.hide)) {
    const methods = (paths[documentedPath(route)] ??= {});
    methods[route.method.toLowerCase()] = operation(api, route, schemas);
  }
  return paths;
}

function documentedPath({ path, hooks }: DeclaredRoute): string {
  const [lastParameter = "*"] = Object.keys(hooks.params?.properties ?? {}).slice(-1);
  return path.replace(/\*$/, `{${lastParameter}}`).replaceAll(/:(\w+)/g, "{$1}");
}

function operation(api: ApiDescription, { hooks }: DeclaredRoute, schemas: SchemaWriter): object {
  const { requestBody, responses = {}, ...detail } = hooks.detail;
  const parameters = [
    ...parametersOf("path", hooks.params, schemas),
    ...parametersOf("query", hooks.query, schemas),
  ];
  const headers = api.headers(detail.security !== undefined);
  return {
    ...detail,
    ...(parameters.length > 0 ? { parameters } : {}),
    ...(hooks.body
      ? { requestBody: { required: true, ...requestBody, content: json(schemas.show(hooks.body)) } }
      : {}),
    responses: {
      ...responses,
      ...Object.fromEntries(
        Object.entries(hooks.response).map(([status, schema]) => {
          const described = responses[status];
          const answer = {
            ...described,
            headers: { ...headers, ...(described?.["headers"] as object | undefined) },
            content: {
              ...json(schemas.show(schema)),
              ...(described?.["content"] as object | undefined),
            },
          };
          return [status, api.error(status, schema, schemas) ?? answer];
        }),
      ),
    },
  };
}

function parametersOf(
  location: "path" | "query",
  declared: TObject | undefined,
  schemas: SchemaWriter,
): readonly object[] {
  return Object.entries(declared?.properties ?? {}).map(([name, property]) => {
    const { description, ...schema } = schemas.show(property);
    const parameter = { name, in: location, description, schema };
    return location === "path" ? Object.assign(parameter, { required: true }) : parameter;
  });
}

function json(schema: PlainSchema): Readonly<Record<string, object>> {
  return { "application/json": { schema } };
}
