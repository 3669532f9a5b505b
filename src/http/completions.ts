import type { App } from "../app.ts";
import type { Caller } from "../auth/authenticate.ts";
import type { Config } from "../config/schema.ts";
import { checkChatRequest, type ChatRequest } from "../contract/chat.ts";
import { ApiError, incompleteRequest, rateLimitExceeded } from "../contract/errors.ts";
import { parseJsonObject } from "../contract/read.ts";
import type { Endpoint } from "../contract/requestForm.ts";
import { checkResponsesRequest, type ResponsesRequest } from "../contract/responses.ts";
import { chat } from "../gateway/chat.ts";
import type { Answer } from "../gateway/answer.ts";
import type { CheckedBody, Gateway, Visit } from "../gateway/gateway.ts";
import { responses } from "../gateway/responses.ts";
import type { JsonFields } from "../lib/json.ts";
import type { BodyClaim } from "../limits/bodyBudget.ts";
import type { Passage } from "../limits/keyLimits.ts";
import { errorClass } from "../telemetry/log.ts";
import { readBody, type BodyText } from "./body.ts";
import { eventStreamResponse, jsonResponse } from "./response.ts";
import { streamBody } from "./stream.ts";
import type { Trace } from "./trace.ts";

/** A request that was let in, as a route's handler gets it. */
export interface Entry {
  request: Request;
  trace: Trace;
  caller: Caller;
  passage: Passage;
  /** Bun's server: it cuts a silent connection unless it is told not to. */
  server: { timeout(request: Request, seconds: number): void } | null;
}

/** How long a connection may be silent before and after the gateway's own time-outs count. */
export const IDLE_TIMEOUT_SECONDS = 60;

/** An endpoint whose requests a provider answers. */
interface Completion<Asked> {
  readonly endpoint: Endpoint;
  check(value: JsonFields, rules: Config["api"]): Asked;
  answer(gateway: Gateway, visit: Visit, body: CheckedBody<Asked>): Promise<Answer>;
}

const chatCompletion: Completion<ChatRequest> = {
  endpoint: "chat",
  check: checkChatRequest,
  answer: chat,
};

const response: Completion<ResponsesRequest> = {
  endpoint: "responses",
  check: checkResponsesRequest,
  answer: responses,
};

export function postChat(app: App, entry: Entry): Promise<Response> {
  return serve(app, entry, chatCompletion);
}

export function postResponses(app: App, entry: Entry): Promise<Response> {
  return serve(app, entry, response);
}

/** Reads the body, lets the gateway answer, and gives the caller's place back when all is over. */
async function serve<Asked extends Pick<ChatRequest, "model" | "stream">>(
  app: App,
  entry: Entry,
  completion: Completion<Asked>,
): Promise<Response> {
  const { request, trace, passage } = entry;
  const setup = app.gateway.current;
  const { server } = setup.config;
  const place = takePlace(app, entry);
  const visit: Visit = {
    requestId: trace.id,
    setup,
    caller: entry.caller,
    passage,
    signal: request.signal,
    note: (fields) => trace.note(fields),
    fail: (error) => trace.fail(errorClass(error)),
    over() {
      place.leave();
      trace.end(200);
    },
  };
  const claim = app.bodies.claim();
  let beginning: Promise<unknown> | undefined;
  try {
    const body = await readWhole(request, server.maxBodyBytes, claim);
    // From here on the gateway's own time-outs count: Bun's would cut a provider that thinks.
    entry.server?.timeout(request, 0);
    const answered = await answer(app.gateway, visit, completion, body);
    if (answered.kind === "stream") {
      place.streams();
      ({ beginning } = answered);
      return eventStreamResponse(
        trace,
        streamBody(answered, app.gateway.clock, request.signal, server.sseKeepaliveMs),
      );
    }
    place.leave();
    return jsonResponse(trace, 200, answered.text, { "x-tollgate-cost-rub": answered.costRub });
  } catch (error) {
    place.leave();
    throw error;
  } finally {
    // With its answer's beginning a body is let go; only a late stream has none yet.
    if (beginning) void beginning.then(() => claim.release());
    else claim.release();
  }
}

/** Parses and checks the body, and lets the gateway answer it. */
async function answer<Asked extends Pick<ChatRequest, "model" | "stream">>(
  gateway: Gateway,
  visit: Visit,
  completion: Completion<Asked>,
  body: BodyText,
): Promise<Answer> {
  const { value, object } = parseJsonObject(body);
  const request = completion.check(value, visit.setup.config.api);
  const { model, stream } = request;
  visit.note({ endpoint: completion.endpoint, model, stream });
  return completion.answer(gateway, visit, { request, object, bodyBytes: body.bytes.length });
}

/** A request's place among those under way. */
interface Place {
  /** It is answered by a stream, and counted as one until it leaves. */
  streams(): void;
  /** Gives the place back, once. */
  leave(): void;
}

function takePlace(app: App, { request, passage, server }: Entry): Place {
  let isLeft = false;
  let isStream = false;
  app.requests.begin();
  return {
    streams() {
      if (isLeft) return;
      isStream = true;
      app.requests.openStreams += 1;
    },
    leave() {
      if (isLeft) return;
      isLeft = true;
      if (isStream) app.requests.openStreams -= 1;
      passage.release();
      app.requests.end();
      // The connection is an idle one again, and a client that never takes its last bytes is cut off.
      server?.timeout(request, IDLE_TIMEOUT_SECONDS);
    },
  };
}

/** A client that goes away while it sends has made a request that is not whole; nobody hears of it but the log. */
async function readWhole(request: Request, bytesMax: number, claim: BodyClaim): Promise<BodyText> {
  try {
    return await readBody(request, bytesMax, (bytes) => {
      // There is room as soon as any other body is let go.
      if (!claim.take(bytes)) throw rateLimitExceeded();
    });
  } catch (error) {
    if (request.signal.aborted && !(error instanceof ApiError)) throw incompleteRequest();
    throw error;
  }
}
