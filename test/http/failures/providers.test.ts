import { describe, expect, test } from "bun:test";
import {
  completion,
  doneEvent,
  helloEvent,
  roleEvent,
  stopEvent,
  thereEvent,
  usageEvent,
  usual,
} from "../../support/provider/chatAnswers.ts";
import { chat, chunksOf, expectRefusal, noProvider } from "../../support/gateway/chatCalls.ts";
import { openBefore } from "../../support/gateway/gatewayUnderTest.ts";
import {
  cut,
  piece,
  raw,
  startProvider,
  stream,
  streamEnd,
  streamHead,
  text,
  type ProviderAnswer,
} from "../../support/provider/scriptedProvider.ts";

const closed = closedPort();
const timeouts = {
  connect_timeout: "400ms",
  first_byte_timeout: "400ms",
  idle_timeout: "400ms",
  total_timeout: "1200ms",
};
const at = openBefore(["one", "two"], ({ one, two }) => ({
  providers: {
    one: { base_url: one, ...timeouts },
    patient: { base_url: one, ...timeouts, total_timeout: "10s" },
    hasty: { base_url: one, ...timeouts, first_content_timeout: "400ms", total_timeout: "10s" },
    writing: { base_url: one, ...timeouts, total_timeout: "600ms" },
    refusing: { base_url: `http://127.0.0.1:${closed}/v1` },
    nowhere: { base_url: "http://tollgate-test.invalid/v1", connect_timeout: "2s" },
    mute: { base_url: one.replace("http:", "https:"), ...timeouts },
    two: { base_url: two },
  },
  models: [
    { id: "writing", routes: [{ provider: "writing" }], settings: { max_output_tokens: 2 } },
    ...["one", "patient", "hasty", "refusing", "nowhere", "mute"].flatMap((provider) => [
      { id: `${provider}-alone`, routes: [{ provider }] },
      { id: provider, routes: [{ provider }, { provider: "two" }] },
    ]),
  ],
}));

/** A port without a listener. */
function closedPort(): number {
  const provider = startProvider();
  provider.stop();
  return provider.port;
}

const whole = JSON.stringify(completion());
const okHead = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n";

/** The provider's behaviour, and the outcome in the attempt's record. */
const faults: readonly (readonly [string, ProviderAnswer, string])[] = [
  ["sends half a body, then nothing", raw(`${okHead}content-length: 900\r\n\r\n{`), "timeout"],
  ["sends garbage", raw("\u0016\u0003\u0001 no HTTP at all\r\n\r\n"), "protocol"],
  ["speaks HTTP/0.9", cut("fin", "<html>hello</html>"), "protocol"],
  ["sends broken chunks", raw(`${okHead}transfer-encoding: chunked\r\n\r\nzz\r\n`), "protocol"],
  [
    "cuts a body without a length",
    cut("fin", `${okHead}\r\n${whole.slice(0, 50)}`),
    "invalid answer",
  ],
  ["sends bytes that are not UTF-8", text(Uint8Array.of(0x7b, 0xff, 0x7d)), "invalid answer"],
  ["sends more than 32 MiB", flood, "too large"],
];

/** A body of 33 MiB. */
async function flood(...[peer, request]: Parameters<ProviderAnswer>): Promise<void> {
  await raw(`${okHead}content-length: ${33 * 1024 * 1024}\r\n\r\n`)(peer, request);
  const block = Buffer.alloc(1024 * 1024, 0x20);
  for (let sent = 0; sent < 33; sent += 1) await peer.send(block);
}

describe("a provider that fails a JSON request", () => {
  test.each(faults)(
    "%s: the next route answers, and one charge follows",
    async (_, answer, outcome) => {
      at.providers.one.answer = answer;
      at.providers.two.answer = usual;
      const key = await at.gateway.key();
      const reply = await chat(at.gateway, key, { model: "one" });
      expect([reply.status, (reply.body as { model: string }).model]).toEqual([200, "one"]);
      expect(await at.gateway.store.requests.attempts(reply.id)).toMatchObject([
        { provider: "one", outcome },
        { provider: "two", outcome: "ok" },
      ]);
      expect(await at.gateway.records(key, 1)).toMatchObject([{ status: "done", provider: "two" }]);
    },
  );

  test.each(faults)("%s, and no other route: 502 and no charge", async (_, answer) => {
    at.providers.one.answer = answer;
    const key = await at.gateway.key();
    expectRefusal(await chat(at.gateway, key, { model: "one-alone" }), noProvider);
    expect(at.providers.one.requests).toHaveLength(1);
    expect(await at.gateway.records(key, 1)).toMatchObject([{ status: "failed", charge: 0n }]);
    expect(await at.gateway.balance(key)).toBe(100_000_000_000n);
  });

  test("answers when its content-encoding is identity in capitals", async () => {
    at.providers.one.answer = text(whole, { headers: { "content-encoding": "Identity " } });
    const reply = await chat(at.gateway, await at.gateway.key(), { model: "one-alone" });
    expect(reply.status).toBe(200);
  });
});

describe("the record of a failed attempt", () => {
  test.each<[string, boolean, ProviderAnswer, number | null]>([
    ["no byte of an answer came", false, cut("fin"), null],
    ["only the head came", false, cut("fin", `${okHead}content-length: 9\r\n\r\n`), 200],
    ["the answer was invalid", false, text("null"), 200],
    ["a stream fell silent", true, raw(streamHead, piece(roleEvent)), 200],
    ["a stream was empty", true, stream(), 200],
  ])("has the provider's status when there is one: %s", async (_, isStream, answer, status) => {
    at.providers.one.answer = answer;
    const reply = await chat(at.gateway, await at.gateway.key(), {
      model: "one-alone",
      stream: isStream,
    });
    expect(reply.status).toBe(502);
    expect(await at.gateway.store.requests.attempts(reply.id)).toMatchObject([{ status }]);
  });
});

describe("the timeouts of a stream", () => {
  const failing = { error: { type: "provider_error" } };

  /** Sends one event again and again, and the content after 1,000 ms. */
  const reasons =
    (event: string): ProviderAnswer =>
    async (peer, request) => {
      await raw(streamHead)(peer, request);
      for (let sent = 0; sent < 20; sent += 1) {
        await peer.send(piece(event));
        await Bun.sleep(50);
      }
      for (const part of [helloEvent, stopEvent, usageEvent, doneEvent])
        await peer.send(piece(part));
      await peer.send(streamEnd);
    };
  const streamed = async (model: string) =>
    chat(at.gateway, await at.gateway.key(), { model, stream: true });

  test.each([
    ["an opening event", roleEvent],
    ["a comment", ": ping\n\n"],
    ["an event of another name", "event: ping\ndata: {}\n\n"],
  ])("first_byte_timeout begins anew with %s", async (_, event) => {
    at.providers.one.answer = reasons(event);
    const reply = await streamed("patient");
    expect(reply.text).toContain("Hello");
    expect(await at.gateway.store.requests.attempts(reply.id)).toMatchObject([{ outcome: "ok" }]);
  });

  test("first_content_timeout ends at the first content, whatever comes before", async () => {
    at.providers.one.answer = reasons(roleEvent);
    at.providers.two.answer = usual;
    const reply = await streamed("hasty");
    expect(chunksOf(reply)).toHaveLength(4);
    expect((await at.gateway.store.requests.attempts(reply.id))[0]).toMatchObject({
      outcome: "timeout",
    });
    expect(
      (await at.gateway.store.requests.attempts(reply.id))[0]?.durationMs,
    ).toBeGreaterThanOrEqual(390);
  });

  test("total_timeout does not end a stream that still writes", async () => {
    at.providers.one.answer = async (peer, request) => {
      await raw(streamHead)(peer, request);
      for (let sent = 0; sent < 30; sent += 1) {
        await peer.send(piece(helloEvent));
        await Bun.sleep(50);
      }
      for (const part of [stopEvent, usageEvent, doneEvent]) await peer.send(piece(part));
      await peer.send(streamEnd);
    };
    const reply = await streamed("writing");
    expect(reply.text.match(/Hello/g)).toHaveLength(30);
    expect(chunksOf(reply).at(-1)).toMatchObject({ choices: [{ finish_reason: "stop" }] });
  });

  test("idle_timeout applies between two reads, so that a slow stream continues", async () => {
    at.providers.one.answer = async (peer, request) => {
      await raw(streamHead, piece(helloEvent))(peer, request);
      await Bun.sleep(250);
      await peer.send(piece(thereEvent));
      await Bun.sleep(250);
      await peer.send(piece(thereEvent));
    };
    const reply = await chat(at.gateway, await at.gateway.key(), {
      model: "patient",
      stream: true,
    });
    expect(reply.text.match(/there/g)).toHaveLength(2);
    expect(chunksOf(reply).at(-1)).toMatchObject(failing);
  });
});
