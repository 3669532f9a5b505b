import { afterAll, beforeAll } from "bun:test";
import type { AttemptRecord, RequestRow, Store } from "../../../src/store/store.ts";
import { ask, seenOf, type Reply, jsonOf } from "../gateway/chatCalls.ts";
import { interfaceOf, validAnswer, type FaultyAnswer, type Form } from "./faultAnswers.ts";
import { askMessage } from "../gateway/messagesCalls.ts";
import type { ConfiguredModel, GatewayConfig } from "../gateway/gatewayConfig.ts";
import {
  startGatewayProcess,
  startTimeoutMs,
  type GatewayProcess,
  type RequestRecord,
} from "../binary/gatewayProcess.ts";
import type { RawPeer } from "../provider/rawServer.ts";
import { startProvider, type ReceivedRequest } from "../provider/scriptedProvider.ts";
import { openStoreAt } from "../store/gatewayDatabase.ts";
import { until, untilAsync } from "../until.ts";

/** A whole answer with its bytes, the form and the model that were asked for, and the providers of its routes. */
export interface FaultReply extends Reply {
  readonly bytes: Buffer;
  readonly form: Form;
  readonly model: string;
  readonly providers: readonly [first: string, next: string];
}

/** A settled request with its attempts, as recorded. */
export interface FaultRecord extends RequestRow {
  readonly attempts: readonly AttemptRecord[];
}

type Settings = Exclude<GatewayConfig["providers"][string], string>;

export interface FaultyRoute {
  readonly answer: FaultyAnswer;
  /** Gives this route its own provider with these settings; otherwise all routes share one. */
  readonly settings?: Settings | undefined;
  /** Whether a route to the healthy provider follows. */
  readonly hasNext?: boolean;
}

/** The compiled gateway and a provider whose fault depends on the model's name. */
export interface FaultSetup {
  readonly gateway: GatewayProcess;
  readonly key: string;
  /**
   * Adds a model, before the first test. Returns its id, which is also its name at the provider. Embeddings and native
   * Messages use models of their own with the same name at the provider.
   */
  model(row: number, route: FaultyRoute): string;
  /** The ids of the providers that serve the model first and next. */
  providersOf(model: string, form?: Form): FaultReply["providers"];
  /** Posts the least request with what a test adds to it, by default with the key of the bench. */
  ask(form: Form, model: string, changes?: object, key?: string): Promise<FaultReply>;
  /** The record of a request. `charge` is its expected cost; the commands must report it after all tests. */
  record(reply: Pick<Reply, "id">, charge: bigint): Promise<FaultRecord>;
  /** The requests for the model at the faulty provider, and at the healthy one. */
  calls(model: string): readonly [faulty: number, healthy: number];
  /** Resolves when no request for the model holds a connection of the faulty provider any more. */
  released(model: string): Promise<void>;
}

/** The provider of the faulty routes without settings: their tests do not depend on time. */
const sharedProvider = "faulty";
const nextProvider = "healthy";
/** Short time-outs, for the routes whose tests depend on time. */
export const shortTimeouts = {
  connect_timeout: "300ms",
  first_byte_timeout: "400ms",
  idle_timeout: "400ms",
  total_timeout: "1500ms",
} as const;

/** Each model has two beside it, with the same name at the provider: for embeddings, and for native Messages. */
const embeddingSuffix = "/vectors";
const messagesSuffix = "/messages";
/** A provider of kind anthropic at the address of another provider has its id with this behind it. */
const anthropicSuffix = "-claude";
/** In nano-roubles. With it the 20 tokens of the usual embeddings cost the same as the usual answer of a chat. */
export const embeddingPrice = 90_125;
const embeddingSettings = { kind: "embedding", rub_input_per_1m: embeddingPrice } as const;

const credit = 1000n;
const listedMax = "10000";
const nanoPerRouble = 1_000_000_000n;

/**
 * The setup of one file, started before its tests. After them the commands of the binary must report for each recorded
 * request its expected cost, the account must have paid exactly these, and the audits must find nothing.
 */
export function openFaultSetup(sections: NonNullable<GatewayConfig["sections"]> = {}): FaultSetup {
  const answers = new Map<string, FaultyAnswer>();
  const clients = new Map<string, WaitingClient>();
  const calls = { faulty: new Map<string, number>(), healthy: new Map<string, number>() };
  const connections = new Map<string, Set<RawPeer>>();
  const faulty = startProvider((peer, request) => {
    const model = nameIn(request);
    count(calls.faulty, model);
    follow(connections, model, peer);
    const answer = answers.get(model);
    const client = clients.get(model);
    if (!answer || !client) throw new Error(`no request for ${model}`);
    return answer(peer, request, client);
  });
  faulty.probeAnswer = (peer, request) => {
    const client = clients.get(nameIn(request));
    return client && answers.get(nameIn(request))?.(peer, request, client);
  };
  const healthy = startProvider((peer, request) => {
    count(calls.healthy, nameIn(request));
    return validAnswer(peer, request);
  });
  const faultyUrl = `http://127.0.0.1:${faulty.port}/v1`;
  const providers: Record<string, string | Settings> = {};
  addProvider(sharedProvider, { base_url: faultyUrl });
  addProvider(nextProvider, { base_url: `http://127.0.0.1:${healthy.port}/v1` });
  const models: ConfiguredModel[] = [];
  let started: { gateway: GatewayProcess; key: string; store: Store } | undefined;
  const charges = new Map<string, bigint>();

  beforeAll(async () => {
    const gateway = await startGatewayProcess({ providers, models, sections });
    gateway.auditor.listenTo(faulty, healthy);
    const key = await gateway.key("alice", String(credit));
    started = { gateway, key, store: await openStoreAt(gateway.place) };
  }, startTimeoutMs);
  afterAll(async () => {
    try {
      if (started) await checkAccount(started.gateway);
    } finally {
      await started?.store.close();
      await started?.gateway.close();
      faulty.stop();
      healthy.stop();
    }
  });

  const setup: FaultSetup = {
    get gateway() {
      return running().gateway;
    },
    get key() {
      return running().key;
    },
    model(row, { answer, settings, hasNext = false }) {
      const id = `fu:${row}/${models.length}`;
      const provider = settings === undefined ? sharedProvider : `faulty-${models.length}`;
      if (settings !== undefined) addProvider(provider, { base_url: faultyUrl, ...settings });
      const next = hasNext ? [{ provider: nextProvider }] : [];
      const kind = settings?.["kind"] ?? "openai";
      models.push({ id, routes: [{ provider, responses: kind === "openai" }, ...next] });
      if (kind === "openai") {
        const providers = hasNext ? [provider, nextProvider] : [provider];
        const routes = providers.map((each) => ({ provider: each, model: id }));
        models.push({ id: id + embeddingSuffix, routes, settings: embeddingSettings });
        const nativeRoutes = providers.map((each) => ({
          provider: each + anthropicSuffix,
          model: id,
          responses: false,
        }));
        models.push({ id: id + messagesSuffix, routes: nativeRoutes });
      }
      answers.set(id, answer);
      return id;
    },
    providersOf(model, form) {
      const first = String(models.find(({ id }) => id === model)?.routes[0]?.["provider"]);
      const suffix = form !== undefined && interfaceOf(form) === "messages" ? anthropicSuffix : "";
      return [first + suffix, nextProvider + suffix];
    },
    async ask(form, model, changes = {}, key = setup.key) {
      const [path, least] = leastRequest(form, model);
      const client = openClient(setup.gateway.url + path, key, { ...least, ...changes });
      clients.set(model, client);
      const reply = await client.reply;
      setup.gateway.auditor.seen.push(seenOf(reply));
      return { ...reply, form, model, providers: setup.providersOf(model, form) };
    },
    async record({ id }, charge) {
      charges.set(id, charge);
      const { requests } = running().store;
      let row: RequestRow | undefined;
      await untilAsync(`${id} has ended`, async () => {
        row = await requests.find(id);
        return row !== undefined && row.status !== "running";
      });
      if (row === undefined) throw new Error(`there is no record of ${id}`);
      return { ...row, attempts: await requests.attempts(id) };
    },
    calls: (model) => [calls.faulty.get(model) ?? 0, calls.healthy.get(model) ?? 0],
    released: (model) =>
      until(`the provider is let go of ${model}`, () => !connections.get(model)?.size),
  };
  return setup;

  function addProvider(id: string, settings: Settings): void {
    providers[id] = settings;
    if ((settings["kind"] ?? "openai") === "openai")
      providers[id + anthropicSuffix] = { ...settings, kind: "anthropic" };
  }

  async function checkAccount(gateway: GatewayProcess): Promise<void> {
    const { cli } = gateway;
    await gateway.expectAuditPasses();
    const filter = ["--account", "alice", "--limit", listedMax];
    const listed = (await cli.json("requests", ...filter)) as RequestRecord[];
    const wrong = listed.filter(({ id, cost_rub: cost }) => nanoOf(cost) !== charges.get(id));
    if (wrong.length > 0)
      throw new Error(`${wrong.length} are not as they must be: ${JSON.stringify(wrong[0])}`);
    const balance = await cli.json("balance", "show", "alice");
    const left = nanoOf((balance as { balance_rub: string }).balance_rub);
    const charged = listed
      .values()
      .map(({ id }) => charges.get(id) ?? 0n)
      .reduce((sum, charge) => sum + charge, 0n);
    if (left !== credit * nanoPerRouble - charged)
      throw new Error(`${left} nano-roubles are left, and ${charged} were to be paid`);
  }

  function running(): NonNullable<typeof started> {
    if (started === undefined) throw new Error("the gateway is not there yet");
    return started;
  }
}

/** The path and the least body of a form. */
function leastRequest(form: Form, model: string): readonly [path: string, body: object] {
  const stream = form.endsWith("stream");
  switch (form) {
    case "chat":
    case "chat stream":
      return ["/v1/chat/completions", { ...ask({ model }), stream }];
    case "responses":
    case "responses stream":
      return ["/v1/responses", { model, input: "hello", stream }];
    case "messages":
    case "messages stream":
      return ["/v1/messages", askMessage({ model: model + messagesSuffix, stream })];
    case "translated messages":
    case "translated messages stream":
      return ["/v1/messages", askMessage({ model, stream })];
    case "embeddings":
      return ["/v1/embeddings", { model: model + embeddingSuffix, input: "hello" }];
  }
}

/** Nano-roubles of a decimal text such as `"0.000012"`. */
export function nanoOf(roubles: string): bigint {
  const [whole = "", part = ""] = roubles.split(".");
  const nano = BigInt(whole.replace("-", "")) * nanoPerRouble + BigInt(part.padEnd(9, "0"));
  return whole.startsWith("-") ? -nano : nano;
}

function nameIn({ json }: ReceivedRequest): string {
  return String(json["model"]);
}

function count(counts: Map<string, number>, name: string): void {
  counts.set(name, (counts.get(name) ?? 0) + 1);
}

/** Remembers that the connection serves the model, until it is closed. */
function follow(connections: Map<string, Set<RawPeer>>, model: string, peer: RawPeer): void {
  const open = connections.get(model) ?? new Set();
  connections.set(model, open.add(peer));
  void peer.closed.then(() => open.delete(peer));
}

/** A waiting client. The provider can wait for what the client has received. */
export interface WaitingClient {
  /** Resolves when what has come holds this. */
  seen(part: string): Promise<void>;
  /** Resolves with the whole answer; rejects where its connection breaks. */
  readonly reply: Promise<Reply & { readonly bytes: Buffer }>;
}

/** Posts a body as JSON. */
function openClient(url: string, key: string, body: object): WaitingClient {
  let text = "";
  const read = async (): Promise<Reply & { bytes: Buffer }> => {
    const response = await fetch(url, {
      method: "POST",
      headers: { "content-type": "application/json", authorization: `Bearer ${key}` },
      body: JSON.stringify(body),
      redirect: "manual",
    });
    const decoder = new TextDecoder();
    const pieces: Uint8Array[] = [];
    for await (const piece of response.body ?? []) {
      pieces.push(piece);
      text += decoder.decode(piece, { stream: true });
    }
    const { status, headers } = response;
    const bytes = Buffer.concat(pieces);
    return { status, headers, text, bytes, body: jsonOf(text), id: idIn(headers) };
  };
  return {
    seen: (part) => until(`the client sees ${part}`, () => text.includes(part)),
    reply: read(),
  };
}

function idIn(headers: Headers): string {
  return headers.get("x-request-id") ?? "";
}
