import { describe, expect, test } from "bun:test";
import { Validator } from "@seriousme/openapi-schema-validator";
import { lazy } from "../../../src/lib/lazy.ts";
import { createServer } from "../../../src/http/server.ts";
import { requestStatuses } from "../../../src/contract/account/requestStatus.ts";
import { describedBy } from "../../support/gateway/apiDescription.ts";
import { call } from "../../support/gateway/chatCalls.ts";
import { openBefore } from "../../support/gateway/gatewayUnderTest.ts";
import { until } from "../../support/until.ts";

const at = openBefore(["local"], ({ local }) => ({
  providers: { local: { base_url: local, api_key: "sk-of-the-operator" } },
  models: [{ id: "model-of-the-operator", routes: [{ provider: "local" }] }],
  sections: {
    api: { unknown_fields: "reject", refused_fields: ["field-of-the-operator"] },
    limits: { requests_per_minute: 4711 },
  },
}));
const other = openBefore(["local"], ({ local }) => ({
  providers: { local },
  models: [{ id: "small", routes: [{ provider: "local" }] }],
}));

const described = lazy(() => describedBy(at.gateway));

/** The error type of each status, from the specification. */
const errorTypes: Readonly<Record<string, string>> = {
  400: "InvalidRequestError",
  401: "AuthError",
  402: "BillingError",
  404: "InvalidRequestError",
  429: "RateLimitError",
  502: "ProviderError",
};

/** The schema that an error of the operation must have. */
function errorSchema(operation: string, status: string): Readonly<Record<string, unknown>> {
  const own = { $ref: `#/components/schemas/${errorTypes[status]}` };
  const anthropic = { $ref: "#/components/schemas/MessagesError" };
  if (operation.startsWith("POST /v1/messages")) return anthropic;
  return operation.startsWith("GET /v1/models") ? { anyOf: [own, anthropic] } : own;
}

describe("GET /openapi.json", () => {
  test("states how many days a usage report may cover", async () => {
    const { body } = await call(at.gateway, undefined, { path: "/openapi.json" });
    const said = /"operationId":"getUsage".*?whole days in UTC, at most (\d+)/.exec(
      JSON.stringify(body),
    );
    const ask = async (days: number) =>
      call(at.gateway, await at.gateway.key(), { path: `/v1/usage?since=${days}d&until=0d` });
    expect((await ask(Number(said?.[1]))).status).toBe(200);
    expect((await ask(Number(said?.[1]) + 1)).status).toBe(400);
  });

  test("needs no key, and has the gateway's headers", async () => {
    const reply = await call(at.gateway, undefined, { path: "/openapi.json" });
    expect(reply.status).toBe(200);
    expect(Object.fromEntries(reply.headers)).toMatchObject({
      "content-type": "application/json",
      "cache-control": "no-store",
    });
    expect(reply.id).toMatch(/^req_/);
    expect(reply.body).toMatchObject({ openapi: "3.1.1", info: { title: "Tollgate" } });
    await until("its line is in the log", () =>
      at.gateway.log.some(({ request_id }) => request_id === reply.id),
    );
    expect(at.gateway.log.find(({ request_id }) => request_id === reply.id)).toMatchObject({
      level: "info",
      method: "GET",
      path: "/openapi.json",
      status: 200,
    });
  });

  test("answers HEAD without a body", async () => {
    const path = "/openapi.json";
    const [head, whole] = [
      await call(at.gateway, undefined, { path, method: "HEAD" }),
      await call(at.gateway, undefined, { path }),
    ];
    expect([head.status, head.text]).toEqual([200, ""]);
    expect(head.headers.get("content-length")).toBe(whole.headers.get("content-length"));
  });

  test.each(["POST", "PUT", "DELETE"])("%s is a 404", async (method) => {
    expect((await call(at.gateway, undefined, { path: "/openapi.json", method })).status).toBe(404);
  });

  test("does not depend on the config", async () => {
    const { text } = await described();
    expect(text).toBe((await describedBy(other.gateway)).text);
    for (const secret of ["of-the-operator", "4711", "127.0.0.1"]) {
      expect(text).not.toContain(secret);
    }
  });

  test("is served while the gateway drains", async () => {
    at.gateway.app.phase = "refusing";
    try {
      expect((await call(at.gateway, undefined, { path: "/openapi.json" })).status).toBe(200);
    } finally {
      at.gateway.app.phase = "serving";
    }
  });
});

describe("the document", () => {
  test("is valid OpenAPI 3.1 by an independent validator", async () => {
    const { document } = await described();
    expect(await new Validator().validate(structuredClone(document))).toEqual({ valid: true });
    const broken = { ...document, paths: { "/x": { get: { responses: { 200: {} } } } } };
    expect((await new Validator().validate(broken)).valid).toBe(false);
  });

  test("uses known schema keywords only, and every reference resolves", async () => {
    const { document, complaints } = await described();
    const { schemas } = document["components"] as { schemas: object };
    expect(Object.keys(schemas).length).toBeGreaterThan(10);
    for (const name of Object.keys(schemas)) expect(complaints(name, undefined)).not.toEqual([]);
  });

  test("lists every route of the server but those of the page, and no other", async () => {
    const { operations } = await described();
    const routes = createServer(at.gateway.app)
      .routes.filter(({ path }) => path !== "/" && !path.startsWith("/assets/"))
      .map(
        ({ method, path }) =>
          `${method} ${path.replace(/\/\*$/, "/{id}").replaceAll(/:(\w+)/g, "{$1}")}`,
      );
    expect([...operations.keys()].toSorted()).toEqual(routes.toSorted());
  });

  test("allows further fields in a request to a provider only, also after the route was called", async () => {
    await call(at.gateway, await at.gateway.key(), { body: {} });
    const { operations, text } = await describedBy(at.gateway);
    const { requestBody } = Object(operations.get("POST /v1/vouchers/redeem"));
    const closed = '"additionalProperties":false';
    expect(JSON.stringify(requestBody)).toContain(closed);
    expect(text.split(closed)).toHaveLength(2);
  });

  test("gives each operation its own name, and demands a key under /v1 only", async () => {
    const { document, operations } = await described();
    const names = [...operations.values()].map((operation) => Object(operation).operationId);
    expect(new Set(names).size).toBe(operations.size);
    expect(document["security"]).toEqual([{ bearer: [] }, { apiKey: [] }]);
    for (const [name, { security }] of operations) {
      expect([name, security]).toEqual([name, name.includes(" /v1/") ? undefined : []]);
    }
  });

  test("lists under /v1 only the statuses of the specification, each with its error type", async () => {
    const { operations, answer } = await described();
    for (const [name, { responses }] of operations) {
      for (const status of Object.keys(responses)) {
        if (status === "200" || (name === "GET /healthz" && status === "503")) continue;
        expect([name, status, answer(name, Number(status)).content]).toEqual([
          name,
          status,
          { "application/json": { schema: errorSchema(name, status) } },
        ]);
      }
    }
  });

  test("lists every status that a request may get", async () => {
    const { complaintsOf, document } = await described();
    const { Receipt } = Object(document["components"]).schemas;
    for (const status of requestStatuses) {
      expect(complaintsOf(Receipt.properties.status, status)).toEqual([]);
    }
    expect(complaintsOf(Receipt.properties.status, "refunded")).not.toEqual([]);
  });

  test("describes every field of a request", async () => {
    const { document } = await described();
    const { schemas } = document["components"] as {
      schemas: Record<string, { properties?: Record<string, object> }>;
    };
    for (const name of ["ChatRequest", "ChatMessage", "ContentPart", "ResponsesRequest"]) {
      const fields = Object.entries(schemas[name]?.properties ?? {});
      expect(fields.length).toBeGreaterThan(0);
      const silent = fields.filter(([, schema]) => !("description" in schema));
      expect([name, silent.map(([field]) => field)]).toEqual([name, []]);
    }
  });
});
