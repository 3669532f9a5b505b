import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { connect } from "node:net";
import { ask, chat, openChat, type OpenReply } from "../support/gateway/chatCalls.ts";
import { openOneModelBefore } from "../support/gateway/gatewayUnderTest.ts";
import { chatBytes } from "../support/gateway/rawClient.ts";
import {
  answered,
  doneEvent,
  helloEvent,
  stopEvent,
  usageEvent,
} from "../support/provider/chatAnswers.ts";
import {
  held,
  piece,
  raw,
  refusal,
  streamEnd,
  streamHead,
} from "../support/provider/scriptedProvider.ts";
import { rouble } from "../support/gateway/testApp.ts";
import { reverseProxies, type StartedProxy } from "../support/servers/reverseProxies.ts";
import { until } from "../support/until.ts";

/** A limit on silence, and a longer time. */
const SILENCE = "1s";
const SILENCE_MS = 1600;

const at = openOneModelBefore({
  server: { sse_keepalive: "200ms" },
  limits: { trusted_proxies: ["127.0.0.1"] },
  billing: { disconnect_grace: "20ms" },
});

describe.each(reverseProxies.map((proxy) => [proxy.name, proxy] as const))("%s", (_, proxy) => {
  if (proxy.missing !== undefined) {
    test.skip(`needs to be installed: ${proxy.missing}`, () => {});
    return;
  }
  let started: StartedProxy;
  const frontAt = ({ port }: StartedProxy) => ({
    url: `http://127.0.0.1:${port}`,
    auditor: at.gateway.auditor,
  });
  let front: ReturnType<typeof frontAt>;
  beforeAll(async () => {
    started = await proxy.start([at.gateway.port]);
    front = frontAt(started);
  });
  afterAll(() => started[Symbol.asyncDispose]());

  test("a stream arrives event by event", async () => {
    const rest = held(raw(...[stopEvent, usageEvent, doneEvent].map(piece), streamEnd));
    at.provider.answer = async (peer, request) => {
      await raw(streamHead, piece(helloEvent))(peer, request);
      await rest.answer(peer, request);
    };
    const client = await openChat(front, await at.gateway.key(), { stream: true });
    await client.seen("Hello");
    await client.seen(": keep-alive");
    expect(client.text).not.toContain("[DONE]");
    rest.go();
    await client.seen("[DONE]");
  });

  test("a JSON answer that takes longer than the limit on silence arrives", async () => {
    const answer = held(answered());
    at.provider.answer = answer.answer;
    await using impatient = await proxy.start([at.gateway.port], SILENCE);
    const startedMs = performance.now();
    const client = await openChat(frontAt(impatient), await at.gateway.key());
    await until("the limit has passed", () => performance.now() - startedMs > SILENCE_MS);
    await client.seen("\n\n");
    answer.go();
    await whole(client);
    expect([client.status, JSON.parse(client.text)]).toMatchObject([200, { model: "small" }]);
  });

  test("a disconnect reaches the gateway", async () => {
    at.provider.answer = raw(streamHead, piece(helloEvent));
    const key = await at.gateway.key();
    const client = await openChat(front, key, { stream: true });
    await client.seen("Hello");
    client.disconnect();
    expect(await at.gateway.records(key, 1)).toMatchObject([{ status: "cancelled" }]);
  });

  test("a late failure never looks like an answer", async () => {
    const answer = held(refusal(424));
    at.provider.answer = answer.answer;
    const response = fetch(`${front.url}/v1/chat/completions`, {
      method: "POST",
      headers: { authorization: `Bearer ${(await at.gateway.key()).key}` },
      body: JSON.stringify(ask()),
    });
    const { status, body } = await response;
    answer.go();
    expect(status).toBe(200);
    // Caddy 2.6 ends the body as if it were whole. It is no JSON all the same.
    const text = await new Response(body).text().catch(() => "");
    expect(text.trim()).toBe("");
  });

  test("a body of 15 MB passes", async () => {
    at.provider.answer = answered();
    const key = await at.gateway.key({ balance: 10_000n * rouble });
    const url = `data:image/png;base64,${"A".repeat(15_000_000)}`;
    const messages = [{ role: "user", content: [{ type: "image_url", image_url: { url } }] }];
    expect((await chat(front, key, { max_tokens: 10, messages })).status).toBe(200);
  });

  test("the address of the log is the client's, whatever it claims", async () => {
    at.provider.answer = answered();
    const { key } = await at.gateway.key();
    const request = chatBytes(key, JSON.stringify(ask()), "X-Forwarded-For: 203.0.113.9\r\n");
    // The address of the machine that no proxy comes from.
    const socket = connect({
      host: "127.0.0.1",
      port: started.port,
      localAddress: "127.0.0.2",
    });
    let text = "";
    socket.on("data", (bytes: Buffer) => (text += bytes.toString()));
    socket.write(request);
    const id = (): string | undefined => /^x-request-id: (\S+)/im.exec(text)?.[1];
    await until("an answer", () => id() !== undefined);
    socket.destroy();
    const line = () => at.gateway.log.find((fields) => fields["request_id"] === id());
    await until("its line", () => line() !== undefined);
    expect(line()).toMatchObject({ status: 200, address: "127.0.0.2" });
  });
});

async function whole(client: OpenReply): Promise<void> {
  await until("the answer is over", () => client.isOver);
}
