import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { existsSync } from "node:fs";
import { answered, choice, usual } from "../support/provider/chatAnswers.ts";
import { openCliFolder, type CommandRun, type CliFolder } from "../support/binary/cli.ts";
import { configText } from "../support/gateway/gatewayConfig.ts";
import { geminiRefusal } from "../support/provider/geminiAnswers.ts";
import { embeds } from "../support/provider/embeddingsAnswers.ts";
import { ended } from "../support/provider/responsesAnswers.ts";
import {
  json,
  refusal,
  startProvider,
  text,
  type ProviderAnswer,
  type ScriptedProvider,
} from "../support/provider/scriptedProvider.ts";
import { until } from "../support/until.ts";

const key = "sk-upstream-0123456789abcdef";
const organisation = "org-canary0123456789";

/** Refuses a bound below `least` tokens, as OpenAI does. */
const requiresBound =
  (least: number): ProviderAnswer =>
  (peer, request) =>
    Number(request.json["max_tokens"]) < least
      ? refusal(400, `Invalid 'max_tokens': at least ${least}`)(peer, request)
      : usual(peer, request);

const response: ProviderAnswer = (peer, request) =>
  request.requestLine.includes("/responses")
    ? json(ended("resp_1", { status: "incomplete", output: [] }))(peer, request)
    : usual(peer, request);

const silent: ProviderAnswer = () => new Promise(() => {});
const secretive = refusal(400, `no ${key} of ${organisation} at http://10.1.2.3:80 may do that`);

/** What a provider answers, and the start of the result of its route. */
const spoiledCases: Readonly<Record<string, readonly [answer: ProviderAnswer, message: string]>> = {
  fine: [response, "ok"],
  vectors: [embeds(), "ok"],
  novectors: [usual, "the answer does not follow the expected interface"],
  thinking: [answered({ choices: [choice({ content: null }, { finish_reason: "length" })] }), "ok"],
  generous: [requiresBound(16), "ok"],
  reasoning: [requiresBound(100), "ok"],
  greedy: [requiresBound(1000), "the provider refuses the request (400): Invalid 'max_tokens'"],
  badkey: [refusal(401), "the provider refuses the key (401): check api_key"],
  badgoogle: [
    geminiRefusal(400, "INVALID_ARGUMENT", "no", [{ reason: "API_KEY_INVALID" }]),
    "the provider refuses the key (400): check api_key",
  ],
  empty: [
    refusal(402),
    "the account at the provider is empty (402): add money there; it says: refused",
  ],
  spent: [
    json({ error: { message: "no", code: "insufficient_quota" } }, { status: 429 }),
    "the account at the provider is empty (429): add money",
  ],
  location: [
    geminiRefusal(400, "FAILED_PRECONDITION", "User location is not supported for the API use."),
    "the provider refuses (400): User location is not supported for the API use.; set proxy",
  ],
  country: [
    json(
      {
        error: {
          message: "Country, region, or territory not supported",
          code: "unsupported_country_region_territory",
        },
      },
      { status: 403 },
    ),
    "the provider refuses (403): Country, region, or territory not supported; set proxy",
  ],
  service: [
    geminiRefusal(403, "PERMISSION_DENIED", `of ${organisation}: it is disabled.`, [
      { reason: "SERVICE_DISABLED" },
    ]),
    "the provider refuses (403): of ***: it is disabled.",
  ],
  disabled: [
    refusal(400, "This organization has been disabled."),
    "the provider refuses (400): This organization has been disabled.",
  ],
  forbidden: [refusal(403, ""), "the provider refuses (403): some_code"],
  unknown: [
    json({ error: { message: "no m", code: "model_not_found" } }, { status: 404 }),
    "the provider does not know the model (404): check model of the route; it says: no m",
  ],
  address: [
    refusal(404, "Invalid URL (POST /chat/completions)"),
    "wrong address or unknown model (404): check base_url (does it end in /v1?) and model of the route; it says: Invalid URL (POST /chat/completions)",
  ],
  nothing: [
    text("404 page not found", { status: 404, type: "text/plain" }),
    "wrong address or unknown model (404): check base_url (does it end in /v1?) and model of the route",
  ],
  tls: [
    text("<html>The plain HTTP request was sent to HTTPS port</html>", {
      status: 400,
      type: "text/html",
    }),
    "the provider refuses the request (400): it gives no reason; check base_url, which may have to start with https://",
  ],
  limited: [refusal(429), "the rate limit of the provider is reached (429): try again later"],
  secretive: [
    secretive,
    "the provider refuses the request (400): no *** of *** at *** may do that",
  ],
  ill: [refusal(503, "loading"), "the provider failed (503): try again later; it says: loading"],
  moved: [refusal(301), "base_url redirects (301)"],
  page: [
    text("<html>", { type: "text/html" }),
    "the answer does not follow the expected interface",
  ],
  broken: [json({ choices: [] }), "the answer does not follow the expected interface"],
  silent: [silent, "no answer within 0.3 s: try again"],
};

const failed = "error: 24 of 30 routes failed: see above";

function isEmbedding(id: string): boolean {
  return id.endsWith("vectors");
}

const providers = new Map<string, ScriptedProvider>();
let cli: CliFolder;
let people: CommandRun;
let document: { ok: boolean; live: Record<string, unknown>[] };

beforeAll(async () => {
  for (const [id, [answer]] of Object.entries(spoiledCases))
    providers.set(id, startProvider(answer));
  const closed = startProvider();
  closed.stop();
  const urls = [...providers].map(([id, { port }]) => [id, `http://127.0.0.1:${port}/v1`] as const);
  const tables = urls.map(([id, base_url]) => [
    id,
    { base_url, api_key: key, ...(id === "silent" ? { total_timeout: "300ms" } : {}) },
  ]);
  cli = await openCliFolder(
    configText({
      providers: {
        ...Object.fromEntries(tables),
        closed: `http://127.0.0.1:${closed.port}/v1`,
        keyless: `http://127.0.0.1:${providers.get("badkey")?.port}/v1`,
      },
      models: [...Object.keys(spoiledCases), "closed", "keyless"].map((id) => {
        const route = { provider: id, model: `${id}-there` };
        return isEmbedding(id)
          ? { id, routes: [route], settings: { kind: "embedding" } }
          : { id, routes: [{ ...route, responses: id === "fine" }] };
      }),
    }),
  );
  people = await cli.run("check", "--live");
  for (const { probes } of providers.values()) expect(probes.length).toBeGreaterThan(0);
  const run = await cli.run("check", "--live", "--json");
  expect(run).toMatchObject({ status: 1, stderr: failed });
  document = JSON.parse(run.stdout) as typeof document;
}, 60_000);
afterAll(async () => {
  await cli.remove();
  for (const provider of providers.values()) provider.stop();
});

const resultOf = (model: string) => document.live.filter((one) => one["model"] === model);

describe("check --live", () => {
  test("asks a route in both interfaces and measures the duration", () => {
    const common = {
      model: "fine",
      provider: "fine",
      upstream_model: "fine-there",
      ok: true,
      message: "ok",
      duration_ms: expect.any(Number),
    };
    expect(resultOf("fine")).toEqual([
      { ...common, endpoint: "chat", api: "chat" },
      { ...common, endpoint: "responses", api: "responses" },
    ]);
  });

  test.each(
    [
      ...Object.entries(spoiledCases).map(([id, [, message]]) => [id, message] as const),
      ["closed", "cannot connect, nothing listens there: check base_url"] as const,
      ["keyless", "the provider requires a key (401): set api_key"] as const,
    ].filter(([id]) => id !== "fine"),
  )("reports for the route %s: %s", (id, message) => {
    const result = { ok: message === "ok", message: expect.stringContaining(message) };
    const api = isEmbedding(id) ? "embeddings" : "chat";
    expect(resultOf(id)).toEqual([expect.objectContaining({ ...result, api })]);
    if (id !== "empty" && id !== "spent") {
      expect(JSON.stringify(resultOf(id))).not.toContain("the account at the provider is empty");
    }
  });

  test("asks an embedding model once, with an embeddings request", () => {
    const { probes = [] } = providers.get("vectors") ?? {};
    expect(probes.map(({ requestLine }) => requestLine)).toEqual([
      "POST /v1/embeddings HTTP/1.1",
      "POST /v1/embeddings HTTP/1.1",
    ]);
    expect(probes[0]?.json).toEqual({ model: "vectors-there", input: "Say ok." });
    expect(resultOf("vectors")).toMatchObject([{ endpoint: "embeddings", api: "embeddings" }]);
  });

  test("asks for one token, and for more only if the provider refuses that", () => {
    const bounds = (id: string) =>
      providers.get(id)?.probes.map(({ json }) => json["max_tokens"] ?? json["max_output_tokens"]);
    expect(bounds("fine")?.slice(0, 2).toSorted()).toEqual([1, 16]);
    expect(bounds("generous")?.slice(0, 2)).toEqual([1, 16]);
    expect(bounds("reasoning")?.slice(0, 3)).toEqual([1, 16, 256]);
    expect(providers.get("fine")?.probes[0]?.json).toMatchObject({ model: "fine-there" });
  });

  test("keeps the order of the config, and exits with 1 if a route fails", () => {
    const models = Object.keys(spoiledCases).flatMap((id) => (id === "fine" ? [id, id] : [id]));
    expect(document.live.map(({ model }) => model)).toEqual([...models, "closed", "keyless"]);
    expect(document.ok).toBe(false);
    expect(people.status).toBe(1);
    expect(people.stderr.split("\n").at(-1)).toBe(failed);
  });

  test("prints a table", () => {
    const lines = people.stdout.split("\n").map((line) => line.trim().replace(/ +/g, " "));
    expect(lines[0]).toEndWith("is valid (providers: 29, models: 29)");
    expect(lines[2]).toBe("model provider provider's name api ms result");
    expect(lines[3]).toMatch(/^fine fine fine-there chat \d+ ok$/);
    expect(lines[4]).toMatch(/^fine fine fine-there responses \d+ ok$/);
    expect(lines).toHaveLength(3 + 30);
  });

  test("prints no secret and opens no database", () => {
    for (const secret of [key, organisation, "10.1.2.3"]) {
      expect(people.stdout + people.stderr + JSON.stringify(document)).not.toContain(secret);
    }
    expect(existsSync(cli.database)).toBe(false);
  });
});

test("check --live asks up to four routes of a provider at once, and no more than its max_concurrent", async () => {
  let open = 0;
  const seen = { narrow: 0, wide: 0 };
  const counting =
    (which: keyof typeof seen, meanwhile: () => Promise<void>): ProviderAnswer =>
    async (peer, request) => {
      open += 1;
      seen[which] = Math.max(seen[which], open);
      await meanwhile();
      open -= 1;
      await usual(peer, request);
    };
  const provider = startProvider();
  const run = async (maxConcurrent: number): Promise<void> => {
    const models = Array.from({ length: 8 }, (_, at) => ({
      id: `model-${at}`,
      routes: [{ provider: "local", responses: false }],
    }));
    const base_url = `http://127.0.0.1:${provider.port}/v1`;
    const local = { base_url, max_concurrent: maxConcurrent };
    const cli = await openCliFolder(configText({ providers: { local }, models }));
    expect(await cli.json("check", "--live")).toMatchObject({ ok: true, live: { length: 8 } });
    await cli.remove();
  };
  provider.answer = counting("narrow", () => Bun.sleep(20));
  await run(1);
  provider.answer = counting("wide", () => until("four at once", () => seen.wide >= 4));
  await run(0);
  provider.stop();
  expect(seen).toEqual({ narrow: 1, wide: 4 });
});
