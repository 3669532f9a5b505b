import { Type } from "@sinclair/typebox";
import { errorAnswers } from "../contract/errorSchemas.ts";
import { declaredRoute } from "./declaredRoute.ts";

/** Any object: its own schema is that of OpenAPI. */
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
    summary: "This description",
    security: [],
    responses: {
      200: { description: "An OpenAPI document. It is the same whatever the gateway's config is." },
    },
  },
  response: { 200: document, ...errorAnswers(400) },
});
