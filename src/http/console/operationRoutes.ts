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
import { oneOf } from "../../contract/requestFields.ts";
import { validationMessage } from "../../contract/validationMessage.ts";
import { declaredRoute } from "../declaredRoute.ts";
import { readBody } from "../requestBody.ts";

/** The longest text of a command line is shorter. */
const BODY_BYTES_MAX = 16 * 1024;
const QUERY_CHARACTERS_MAX = 512;

/**
 * The routes of all operations that have one. Each answers the document that the command prints with `--json`. Thrown errors
 * are left to the server. Elysia decodes the parameters of the path.
 */
export function operationRoutes(operator: () => Operator): Elysia {
  const routes = new Elysia({ name: "operations" });
  for (const one of operations) {
    const [method, path] = one.route?.split(" ") ?? [];
    if (path !== undefined) addRoute(routes, method === "GET", path, one, operator);
  }
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
  const response = { 200: one.output ?? Type.Any() };
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
      declaredRoute({ query, response }),
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
    declaredRoute({ parse: "none" as const, body, response }),
  );
}

function inQuery({ choices }: Field) {
  return Type.Optional(choices ? oneOf(choices) : Type.String({ maxLength: QUERY_CHARACTERS_MAX }));
}

function inBody({ isRequired }: Field) {
  return isRequired ? Type.String() : Type.Optional(Type.String());
}

/** The console has one user, so nothing is counted. */
const unlimited = { take: () => true };

/** Reads a body of texts. No body counts as an empty object. Throws ApiError 400. */
async function readTexts(request: Request, schema: TObject): Promise<Texts> {
  const { text } = await readBody(request, BODY_BYTES_MAX, unlimited);
  const value = text === "" ? {} : parseJsonObject({ text }).value;
  const problem = validationMessage(schema, value);
  if (problem !== undefined) throw invalidRequest(problem);
  return value as Texts;
}
