import { lazy } from "../../lib/lazy.ts";
import { version } from "../../lib/version.ts";
import { accountSchemas } from "./accountSchemas.ts";
import { headerComponents } from "./answerHeaders.ts";
import { chatSchemas } from "./chatSchemas.ts";
import { errorComponents } from "./errorAnswers.ts";
import { errorSchemas, roubles } from "./errorSchemas.ts";
import { paths } from "./paths.ts";
import { plainSchemas } from "./plainSchema.ts";
import { responsesSchemas } from "./responsesSchemas.ts";
import { serviceSchemas } from "./serviceSchemas.ts";

/**
 * The API's description in JSON: OpenAPI 3.1 (https://spec.openapis.org/oas/v3.1.1.html), because its schemas are the
 * JSON Schema that TypeBox writes. It knows nothing of the config. Made when it is first asked for, and kept.
 */
export const openapiText = lazy(() => JSON.stringify(document()));

const introduction = [
  "An OpenAI-compatible API over several providers, with prepaid accounts in roubles.",
  "Client libraries for OpenAI work with this address, ending in `/v1`, and a key.",
  "\n\nEvery answer bears `x-request-id`. HEAD answers as GET, without a body.",
  'Every error is `{"error":{"message","type"}}`, that of an unknown path or method too (404, `not found`).',
  "Money is a decimal string of roubles; prices are whole thousandths of a rouble per 1,000,000 tokens.",
  "\n\nWhich models there are, what may be sent beside the listed fields, and which limits hold, is the operator's",
  "to set, and does not stand here.",
].join(" ");

function document(): object {
  return {
    openapi: "3.1.1",
    info: {
      title: "Tollgate",
      summary: "An LLM gateway with exact prepaid billing",
      description: introduction,
      license: { name: "MIT", identifier: "MIT" },
      version: version(),
    },
    servers: [{ url: "/", description: "The gateway that this document came from" }],
    security: [{ bearer: [] }],
    tags: [
      { name: "completions", description: "Ask a model" },
      { name: "models", description: "What may be asked, and what it costs" },
      { name: "account", description: "What the key's account has and used" },
      { name: "service", description: "The gateway itself; no key is needed" },
    ],
    paths: paths(),
    components: {
      securitySchemes: {
        bearer: {
          type: "http",
          scheme: "bearer",
          description: "A key of this gateway, `sk-tg-...`. A key in the URL is never accepted.",
        },
      },
      schemas: plainSchemas({
        ...chatSchemas(),
        ...responsesSchemas(),
        ...serviceSchemas(),
        ...accountSchemas(),
        ...errorSchemas(),
        Roubles: roubles(),
      }),
      responses: errorComponents(),
      headers: headerComponents,
    },
  };
}
