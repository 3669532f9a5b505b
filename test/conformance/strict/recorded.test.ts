import { describe, expect, test } from "bun:test";
import { call } from "../../support/gateway/chatCalls.ts";
import { openBefore } from "../../support/gateway/gatewayUnderTest.ts";
import type { TestKey } from "../../support/gateway/testApp.ts";
import { recordedRequests, type RecordedRequest } from "../recorded/recorded.ts";
import { chatSpeaker } from "../speakers/chatSpeaker.ts";
import { messagesSpeaker } from "../speakers/messagesSpeaker.ts";
import { responsesSpeaker } from "../speakers/responsesSpeaker.ts";
import type { ClientAnswer } from "../speakers/speaker.ts";
import { exceptions, type Exception } from "./exceptions.ts";
import { strictServers } from "./servers.ts";
import {
  object,
  offeredTools,
  saysCalls,
  saysText,
  strictAnswer,
  type Refused,
  type StrictRequest,
  type StrictServer,
  word,
} from "./strictServer.ts";

const recorded = await recordedRequests();
const speakers = [chatSpeaker, responsesSpeaker, messagesSpeaker];
const modelOf = (server: StrictServer) => `m${strictServers.indexOf(server)}`;

const at = openBefore(["strict"], ({ strict }) => ({
  providers: Object.fromEntries(
    strictServers.map((server) => [modelOf(server), { base_url: strict, ...server.provider }]),
  ),
  models: strictServers.map((server) => ({
    id: modelOf(server),
    routes: [{ ...server.route, provider: modelOf(server) }],
    settings: { max_output_tokens: 32_000, ...server.settings },
  })),
}));

/** Sends a recorded request over the server. Undefined if all is well, else what is wrong. */
async function fault(
  server: StrictServer,
  request: RecordedRequest,
  key: TestKey,
): Promise<string | undefined> {
  let refused: Refused | undefined;
  let offered: readonly string[] = [];
  at.providers.strict.answer = strictAnswer(
    server,
    (received) => {
      offered = offeredTools(received);
      return saysWhatIsAsked(server, received);
    },
    (one) => (refused = one),
  );
  const reply = await call(at.gateway, key, {
    path: request.path,
    headers: request.headers,
    body: { ...request.body, model: modelOf(server) },
  });
  if (refused !== undefined) return `refused by the server: ${refused.message}`;
  if (reply.status !== 200) return `refused by the gateway: ${reply.status} ${reply.text}`;
  const answer = read(request, reply.text);
  if (typeof answer === "string") return answer;
  const called = answer.toolCalls.map((one) => word(object(one)["name"]));
  if (offered.length > 0 && called.length !== 2) return `not two calls: ${reply.text}`;
  const known = JSON.stringify([request.body["tools"], request.body["input"]]);
  const strange = called.find((name) => !known.includes(`"${name}"`));
  return strange === undefined ? undefined : `a call of no tool of the client's: ${strange}`;
}

/** Two calls of the first tool if there are tools, else an answer in the form that is asked for. */
function saysWhatIsAsked(server: StrictServer, received: StrictRequest) {
  const [first] = offeredTools(received);
  if (first === undefined) return saysText('{"city":"Kazan","degrees":21}');
  // A tool that takes a text has it in this member when it is offered as a function.
  const input = "text()";
  const calls = ["Kazan", "Perm"].map((city) => ({ name: first, input: { city, input } }));
  return saysCalls(server, calls);
}

function read({ path, body }: RecordedRequest, text: string): ClientAnswer | string {
  const speaker = speakers.find((one) => one.path === path);
  if (speaker === undefined) throw new Error(`no speaker for ${path}`);
  try {
    if (body["stream"] !== true) return speaker.read(text);
    const stream = speaker.readStream(text);
    return stream.ended === "whole" ? stream.answer : `the stream failed: ${stream.message}`;
  } catch (error) {
    return `no client can read it: ${word(error)}: ${text}`;
  }
}

describe.each(strictServers.map((server) => [server.name, server] as const))("%s", (_, server) => {
  test("takes what every client sends", async () => {
    const key = await at.gateway.key();
    const faults: Record<string, string> = {};
    for (const request of recorded) {
      const what = await fault(server, request, key);
      at.gateway.forgetFailures();
      if (what === undefined || isExcepted(server, request, what)) continue;
      faults[`${request.client}, ${request.path}: ${request.name}`] = what;
    }
    expect(faults).toEqual({});
  });
});

/** The exceptions that a pair needed. */
const needed = new Set<Exception>();

test("no exception is needless", () => {
  expect(exceptions.filter((exception) => !needed.has(exception))).toEqual([]);
});

function isExcepted(server: StrictServer, request: RecordedRequest, what: string): boolean {
  const found = exceptions.filter(
    ({ words, servers = /^/, clients = /^/ }) =>
      what.includes(words) && servers.test(server.name) && clients.test(request.client),
  );
  for (const exception of found) needed.add(exception);
  return found.length > 0;
}
