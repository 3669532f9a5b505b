import type { AuditedProvider } from "../auditor/auditor.ts";
import { producedAnswer, type ProducedAnswer } from "../auditor/logs.ts";
import { startRawServer, type RawPeer } from "./rawServer.ts";
import { until } from "../until.ts";

/** A request as it came to the provider, byte for byte. */
export interface ReceivedRequest {
  /** The whole request, head and body. */
  readonly text: string;
  /** `POST /v1/chat/completions HTTP/1.1`. */
  readonly requestLine: string;
  /** Names in lower case and values, in the order of the head. */
  readonly headers: readonly (readonly [name: string, value: string])[];
  readonly body: string;
  /** The body, parsed. */
  readonly json: Readonly<Record<string, unknown>>;
}

/** Answers one request on its connection; what it rejects with is dropped. */
export type ProviderAnswer = (peer: RawPeer, request: ReceivedRequest) => Promise<void> | void;

/** A provider on real TCP whose answers the test sets. */
export interface ScriptedProvider extends AuditedProvider {
  readonly port: number;
  /** Every request of a client so far. */
  readonly requests: readonly ReceivedRequest[];
  /** The gateway's own requests, by which it finds out whether the provider works. */
  readonly probes: readonly ReceivedRequest[];
  /** Connections that are open now. */
  readonly openCount: number;
  /** Answers the next requests, until it is changed. */
  answer: ProviderAnswer;
  /** Resolves with the request of this index, when it has come. */
  request(index: number): Promise<ReceivedRequest>;
  /** Answers the probes; undefined: as the requests. */
  probeAnswer: ProviderAnswer | undefined;
  /** Drops the requests and the answers that were set for a test. */
  forget(): void;
  stop(): void;
}

/** The question of `check --live` and of the gateway's own probes. */
const PROBE_TEXT = '"Say ok."';

export function startProvider(answer: ProviderAnswer = refuse): ScriptedProvider {
  const requests: ReceivedRequest[] = [];
  const probes: ReceivedRequest[] = [];
  const server = startRawServer(async (peer) => {
    for (;;) {
      const received = receivedRequest(await peer.request());
      const isProbe = received.body.includes(PROBE_TEXT);
      (isProbe ? probes : requests).push(received);
      peer.onSend = provider.log && recordTo(provider.log, received);
      const answerNow = (isProbe ? provider.probeAnswer : undefined) ?? provider.answer;
      await answerNow(peer, received);
    }
  });
  const provider: ScriptedProvider = {
    port: server.port,
    requests,
    probes,
    probeAnswer: undefined,
    get openCount() {
      return server.openCount;
    },
    answer,
    log: undefined,
    async request(index) {
      await until(`request ${index} at the provider`, () => requests.length > index);
      const found = requests[index];
      if (found === undefined) throw new Error("unreachable");
      return found;
    },
    forget() {
      requests.length = 0;
      probes.length = 0;
      provider.answer = answer;
      provider.probeAnswer = undefined;
    },
    stop: () => server.stop(),
  };
  return provider;
}

/** Raw bytes, one write per piece. */
export function raw(...pieces: readonly (string | Uint8Array)[]): ProviderAnswer {
  return async (peer) => {
    for (const piece of pieces) await peer.send(piece);
  };
}

/** Waits for permission, and then answers. */
export function held(answer: ProviderAnswer): { answer: ProviderAnswer; go(): void } {
  const gate = Promise.withResolvers<void>();
  return {
    answer: async (peer, request) => {
      await gate.promise;
      await answer(peer, request);
    },
    go: gate.resolve,
  };
}

/** Closes or resets the connection after these bytes. */
export function cut(
  how: "fin" | "reset",
  ...pieces: readonly (string | Uint8Array)[]
): ProviderAnswer {
  return async (peer, request) => {
    await raw(...pieces)(peer, request);
    peer[how]();
  };
}

/** An answer with a content-length. */
export function text(
  body: string | Uint8Array,
  options: { status?: number; type?: string; headers?: Readonly<Record<string, string>> } = {},
): ProviderAnswer {
  const { status = 200, type = "application/json", headers = {} } = options;
  const bytes = Buffer.from(body);
  const head = [
    `HTTP/1.1 ${status} Scripted`,
    `content-type: ${type}`,
    `content-length: ${bytes.byteLength}`,
    ...Object.entries(headers).map(([name, value]) => `${name}: ${value}`),
  ];
  return raw(Buffer.concat([Buffer.from(`${head.join("\r\n")}\r\n\r\n`), bytes]));
}

export function json(value: unknown, options: Parameters<typeof text>[1] = {}): ProviderAnswer {
  return text(JSON.stringify(value), options);
}

/** An error in the convention's form. */
export function refusal(
  status: number,
  message = "refused",
  headers: Readonly<Record<string, string>> = {},
): ProviderAnswer {
  return json({ error: { message, type: "some_error", code: "some_code" } }, { status, headers });
}

/** The head of an event stream, whose pieces follow in chunks. */
export const streamHead =
  "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n";

/** The proper end of a chunked body. */
export const streamEnd = "0\r\n\r\n";

/** One piece of a chunked body. */
export function piece(body: string | Uint8Array): Buffer {
  const bytes = Buffer.from(body);
  return Buffer.concat([
    Buffer.from(`${bytes.byteLength.toString(16)}\r\n`),
    bytes,
    Buffer.from("\r\n"),
  ]);
}

/** A complete event stream of these texts, one chunk each. */
export function stream(...texts: readonly (string | Uint8Array)[]): ProviderAnswer {
  return raw(streamHead, ...texts.map(piece), streamEnd);
}

/** The answer when a test set none. */
function refuse(): never {
  throw new Error("the provider was not told what to answer");
}

/** Records all that is sent for this request. A request without an id does not come from a gateway. */
function recordTo(log: ProducedAnswer[], request: ReceivedRequest): RawPeer["onSend"] {
  const id = requestIdOf(request);
  if (id === undefined) return undefined;
  const produced = producedAnswer(id, request.requestLine);
  log.push(produced);
  return (bytes) => produced.sends(bytes);
}

/** The `x-request-id` that the gateway sent. */
export function requestIdOf({ headers }: ReceivedRequest): string | undefined {
  return headers.find(([name]) => name === "x-request-id")?.[1];
}

function receivedRequest(whole: string): ReceivedRequest {
  const headEnd = whole.indexOf("\r\n\r\n");
  const [requestLine = "", ...lines] = whole.slice(0, headEnd).split("\r\n");
  const body = whole.slice(headEnd + 4);
  return {
    text: whole,
    requestLine,
    headers: lines.map((line): [string, string] => {
      const colon = line.indexOf(":");
      return [line.slice(0, colon).toLowerCase(), line.slice(colon + 1).trim()];
    }),
    body,
    get json() {
      return JSON.parse(body) as Record<string, unknown>;
    },
  };
}
