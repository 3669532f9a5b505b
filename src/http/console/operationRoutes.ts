import { Type, type TObject } from "@sinclair/typebox";
import { Elysia } from "elysia";
import {
  readInput,
  runOperation,
  type Field,
  type Operation,
  type Texts,
} from "../../administration/operation.ts";
import { operations } from "../../administration/operations.ts";
import type { Operator } from "../../administration/operator.ts";
import { invalidRequest } from "../../contract/errors.ts";
import { parseJsonObject } from "../../contract/jsonBody.ts";
import { openapiText, type ApiDescription } from "../../contract/openapi/openapi.ts";
import { ConsoleErrorBody } from "../../contract/operator/consoleState.ts";
import { oneOf } from "../../contract/requestFields.ts";
import { validationMessage } from "../../contract/validationMessage.ts";
import { lazy } from "../../lib/lazy.ts";
import { version } from "../../lib/version.ts";
import { declaredRoute } from "../declaredRoute.ts";
import { readBody } from "../requestBody.ts";
import { PAGE_HEADER } from "./guard.ts";

/** The longest text of a command line is shorter. */
const BODY_BYTES_MAX = 16 * 1024;
const QUERY_CHARACTERS_MAX = 512;

/** What `GET /api/openapi.json` says besides the routes. */
const operatorApi: ApiDescription = {
  head: {
    info: {
      title: "Console of Tollgate",
      description:
        "The operations of the console. Values are texts in the form of the command line. An answer is the document that the command prints with `--json`.",
      version: version(),
    },
    servers: [{ url: "/", description: "The console that sent this document" }],
    security: [{ session: [], page: [] }],
  },
  securitySchemes: {
    session: {
      type: "apiKey",
      in: "cookie",
      name: "tollgate_console",
      description:
        "The cookie that POST /api/session sets. Its name differs from console to console.",
    },
    page: {
      type: "apiKey",
      in: "header",
      name: PAGE_HEADER,
      description: "The `page_secret` of the answer of POST /api/session.",
    },
  },
  schemas: { Error: ConsoleErrorBody },
  components: () => ({}),
  headers: () => ({}),
  error: () => undefined,
};

const otherAnswer = {
  description: "The operation failed and changed nothing.",
  content: { "application/json": { schema: { $ref: "#/components/schemas/Error" } } },
};

/**
 * The routes of all operations that have one, and their description. Each answers the document that the command prints with
 * `--json`. Thrown errors are left to the server. Elysia decodes the parameters of the path.
 */
export function operationRoutes(operator: () => Operator): Elysia {
  const routes = new Elysia({ name: "operations" });
  for (const one of operations) {
    const [method, path] = one.route?.split(" ") ?? [];
    if (path !== undefined) addRoute(routes, method === "GET", path, one, operator);
  }
  const description = lazy(() => openapiText(operatorApi, routes.routes));
  routes.get(
    "/api/openapi.json",
    () => new Response(description(), { headers: { "content-type": "application/json" } }),
    { detail: { hide: true } },
  );
  return routes;
}

function addRoute(
  routes: Elysia,
  isRead: boolean,
  path: string,
  one: Operation,
  operator: () => Operator,
): void {
  const inPath = Object.keys(one.input).filter((name) => path.split("/").includes(`:${name}`));
  const others = Object.entries(one.input).filter(
    ([name, { isCliOnly }]) => !isCliOnly && !inPath.includes(name),
  );
  const declared = {
    detail: {
      operationId: one.name.replaceAll(/ (\w)/g, (_, letter: string) => letter.toUpperCase()),
      summary: one.doc,
      responses: { 200: { description: "The document." }, default: otherAnswer },
    },
    // Elysia refuses a request without parameters where a schema is declared for them.
    ...(inPath.length > 0 && {
      params: Type.Object(
        Object.fromEntries(inPath.map((name) => [name, Type.String(documented(one.input[name]))])),
      ),
    }),
    response: { 200: one.output ?? Type.Any() },
  };
  const answer = async (params: Texts, texts: Texts): Promise<unknown> => {
    const context = operator();
    const values = readInput(one, { ...texts, ...params }, context.actor.at);
    one.check?.(values);
    return (await runOperation(one, context, values)).document;
  };
  if (isRead) {
    const query = Type.Object(
      Object.fromEntries(others.map(([name, field]) => [name, inQuery(field)])),
    );
    routes.get(
      path,
      ({ params, query }) => answer(params, query as Texts),
      declaredRoute({ ...declared, query }),
    );
    return;
  }
  const body = Type.Object(
    Object.fromEntries(others.map(([name, field]) => [name, inBody(field)])),
    {
      additionalProperties: false,
    },
  );
  routes.post(
    path,
    async ({ request, params }) => {
      // A wrong id is told before a wrong body, and it is no field of the body.
      const given: Texts = params;
      for (const name of inPath) one.input[name]?.read(given[name] ?? "", 0);
      return answer(given, await readTexts(request, body));
    },
    // Elysia does not read the body: `readTexts` does.
    declaredRoute({ ...declared, parse: "none" as const, body }),
  );
}

function inQuery(field: Field) {
  const options = documented(field);
  return Type.Optional(
    field.choices
      ? oneOf(field.choices, options)
      : Type.String({ ...options, maxLength: QUERY_CHARACTERS_MAX }),
  );
}

function inBody(field: Field) {
  const text = Type.String(documented(field));
  return field.isRequired ? text : Type.Optional(text);
}

function documented({ doc, default: value }: Pick<Field, "doc" | "default"> = {}) {
  return { ...(doc && { description: doc }), ...(value && { default: value }) };
}

/** Reads a body of texts. No body counts as an empty object. Throws ApiError 400. */
async function readTexts(request: Request, schema: TObject): Promise<Texts> {
  const body = await readBody(request, BODY_BYTES_MAX);
  const value = body.length === 0 ? {} : parseJsonObject(body).value;
  const problem = validationMessage(schema, value);
  if (problem !== undefined) throw invalidRequest(problem);
  return value as Texts;
}
