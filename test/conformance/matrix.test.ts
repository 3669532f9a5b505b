import { describe, expect, test } from "bun:test";
import { routeKinds, services, type RouteKind } from "../../src/gateway/interfaces.ts";
import { call } from "../support/gateway/chatCalls.ts";
import { configText } from "../support/gateway/gatewayConfig.ts";
import { openBefore } from "../support/gateway/gatewayUnderTest.ts";
import { json, stream, text } from "../support/provider/scriptedProvider.ts";
import { vectors, geminiVectors } from "../support/provider/embeddingsAnswers.ts";
import { loadText } from "../config/loadText.ts";
import {
  cells,
  modelOf,
  nameOf,
  openCellsBefore,
  providersModel,
  routeSection,
  servedCells,
  shortAnswer,
} from "./cells.ts";

const at = openCellsBefore();
/** Members of the least request, in a form that is lost if it is parsed and written again. */
const members = {
  chat: ' "messages" :[{"role":"user","content":"h\\u0065llo"}], "temperature":1e0',
  responses: ' "input" : "h\\u0065llo", "store":false, "max_output_tokens":1e1',
  messages: ' "messages" :[{"role":"user","content":"h\\u0065llo"}], "max_tokens":1e1',
} as const;

describe("a route is what the table says", () => {
  test.each(cells.map((cell) => [nameOf(cell), cell] as const))("%s", async (_, cell) => {
    const { speaker, dialect, model, service } = cell;
    at.providers.first.answer = text(dialect.json(shortAnswer));
    const own = members[speaker.endpoint];
    const body = `{${own}, "model" :"${model}"}`;
    const reply = await call(at.gateway, await at.gateway.key(), { path: speaker.path, body });
    expect(reply.status).toBe(service === "refused" ? 400 : 200);
    const sent = at.providers.first.requests.map((request) => request.body);
    const unchanged = `{${own}, "model" :"${providersModel}"}`;
    if (service === "refused") expect(sent).toEqual([]);
    else if (service === "native") expect(sent).toEqual([unchanged]);
    else expect(sent).not.toEqual([unchanged]);
  });

  test("every model for chats lists the endpoints that are not refused", async () => {
    const { body } = await call(at.gateway, await at.gateway.key(), { path: "/v1/models" });
    const { data } = body as { data: { id: string; endpoints: readonly string[] }[] };
    for (const kind of routeKinds) {
      const { embeddings: _, ...chats } = services[kind];
      const served = Object.entries(chats).flatMap(([endpoint, service]) =>
        service === "refused" ? [] : [endpoint],
      );
      expect(data.find(({ id }) => id === modelOf(kind))?.endpoints).toEqual(served);
    }
  });
});

/** The config of an embedding model with one route of a kind. */
function embeddingModel(kind: RouteKind, url: string) {
  const { providerId, provider, route: all } = routeSection(kind);
  // Even a key that is false is none of an embedding model.
  const route = Object.fromEntries(Object.entries(all).filter(([, value]) => value !== false));
  const model = { id: "vectors", routes: [route], settings: { kind: "embedding" } };
  return { providers: { [providerId]: { base_url: url, ...provider } }, models: [model] };
}

describe("embeddings", () => {
  const refused = routeKinds.filter((kind) => services[kind].embeddings === "refused");

  test.each(refused)("over %s are refused when the config is read", (kind) => {
    const { problems } = loadText(configText(embeddingModel(kind, "http://127.0.0.1:1/v1")));
    expect(problems).not.toEqual([]);
    expect(problems.join("\n")).toMatch(/embedding/);
  });

  describe.each(routeKinds.filter((kind) => !refused.includes(kind)))("over %s", (kind) => {
    const one = openBefore(["local"], ({ local }) => embeddingModel(kind, local));
    const isNative = services[kind].embeddings === "native";

    test(`are ${services[kind].embeddings}`, async () => {
      one.providers.local.answer = json(isNative ? vectors() : geminiVectors([[0.25]], 20));
      const own = ' "input" : "h\\u0065llo"';
      const body = `{${own}, "model" :"vectors"}`;
      const reply = await call(one.gateway, await one.gateway.key(), {
        path: "/v1/embeddings",
        body,
      });
      expect([reply.status, reply.body]).toMatchObject([200, { object: "list" }]);
      const sent = one.providers.local.requests.map((request) => request.body);
      const unchanged = `{${own}, "model" :"${providersModel}"}`;
      if (isNative) expect(sent).toEqual([unchanged]);
      else expect(sent).not.toEqual([unchanged]);
    });
  });
});

/** What only the provider's own interface can do. */
const onlyNative = [
  [
    "responses",
    { input: "hello", store: true },
    "this model does not keep responses: set store to false",
  ],
  [
    "responses",
    { input: "hello", store: false, tools: [{ type: "mcp" }] },
    "tools[0] of the type mcp is not supported by this model's provider",
  ],
  [
    "messages",
    {
      max_tokens: 10,
      messages: [{ role: "user", content: "hello" }],
      tools: [{ type: "bash_20250124", name: "bash" }],
    },
    "tools[0]: Input tag 'bash_20250124' is not supported by this model's provider",
  ],
] as const;

describe.each(onlyNative)("in %s %j", (endpoint, body, message) => {
  const own = servedCells.filter(({ speaker }) => speaker.endpoint === endpoint);
  test.each(own.map((cell) => [nameOf(cell), cell] as const))("over %s", async (_, cell) => {
    const { speaker, dialect, model, service } = cell;
    for (const isStream of [false, true]) {
      at.providers.first.answer = isStream
        ? stream(dialect.stream(shortAnswer))
        : text(dialect.json(shortAnswer));
      const reply = await call(at.gateway, await at.gateway.key(), {
        path: speaker.path,
        body: { model, stream: isStream, ...body },
      });
      if (service === "native") expect(reply.status).toBe(200);
      else {
        const error = speaker.error({ status: 400, message }, reply.id);
        expect([reply.status, reply.body]).toEqual([400, error]);
        expect(at.providers.first.requests).toEqual([]);
      }
    }
  });
});
