import { describe, expect, test } from "bun:test";
import { costOf } from "../../support/gateway/gatewayConfig.ts";
import { openBefore } from "../../support/gateway/gatewayUnderTest.ts";
import { created, delta, responds, terminal } from "../../support/provider/responsesAnswers.ts";
import { openResponse, respond } from "../../support/gateway/responsesCalls.ts";
import {
  piece,
  raw,
  stream,
  streamEnd,
  streamHead,
} from "../../support/provider/scriptedProvider.ts";
import { responseEvent } from "../../support/provider/upstreamText.ts";

const at = openBefore(["first", "second"], ({ first, second }) => ({
  sections: { server: { sse_keepalive: "60ms" }, billing: { disconnect_grace: "20ms" } },
  providers: {
    first,
    second,
    hasty: { base_url: first, first_byte_timeout: "400ms", idle_timeout: "2s" },
  },
  models: [
    { id: "hasty", routes: [{ provider: "hasty", responses: true }] },
    { id: "small", routes: [{ provider: "first", model: "alone" }] },
    { id: "both", routes: [{ provider: "first", model: "both" }, { provider: "second" }] },
  ],
}));
const streaming = { model: "both", stream: true };
const failing = responseEvent("error", { code: "server_error", message: "x", param: null });

/** Without keep-alive comments, which a busy machine may cause. */
const said = ({ text }: { text: string }): string => text.replaceAll(": keep-alive\n\n", "");

function itemAdded(type: string): string {
  return responseEvent("response.output_item.added", { output_index: 0, item: { id: "i", type } });
}
const starts: readonly string[] = [
  created(),
  responseEvent("response.queued"),
  responseEvent("response.in_progress"),
  itemAdded("reasoning"),
  responseEvent("response.reasoning_summary_part.added"),
  itemAdded("message"),
  responseEvent("response.content_part.added", { part: { type: "output_text", text: "" } }),
  responseEvent("keepalive"),
  responseEvent("response.something_new"),
  'data: {"type":"keepalive"}\n\n',
  ": a comment\n\n",
  "data: no object\n\n",
];
const contents: readonly string[] = [
  delta,
  responseEvent("response.reasoning_summary_text.delta", { delta: "hm" }),
  responseEvent("response.reasoning_text.delta", { delta: "hm" }),
  responseEvent("response.function_call_arguments.delta", { delta: "{" }),
  responseEvent("response.output_text.done", { text: "Hello" }),
  responseEvent("response.output_item.done", { item: { id: "i", type: "message" } }),
  ...["function_call", "custom_tool_call", "web_search_call", "image_generation_call"].map(
    itemAdded,
  ),
  itemAdded("function_call").replace(/^event: .*\n/, ""),
];

test("a model that reports reasoning may be silent for idle_timeout", async () => {
  at.providers.first.answer = async (peer, request) => {
    await raw(streamHead, piece(created()), piece(itemAdded("reasoning")))(peer, request);
    for (let silence = 0; silence < 4; silence += 1) {
      await Bun.sleep(150);
      await peer.send(piece(responseEvent("keepalive")));
    }
    await raw(piece(delta), piece(terminal("completed")), streamEnd)(peer, request);
  };
  const reply = await respond(at.gateway, await at.gateway.key(), { model: "hasty", stream: true });
  expect(reply.status).toBe(200);
  expect(reply.text).toContain("response.completed");
});

describe("before the first content of a stream", () => {
  test.each(starts.map((start) => [start]))(
    "another provider may still answer after %j",
    async (start) => {
      at.providers.first.answer = stream(created(), start, failing);
      at.providers.second.answer = responds("resp_2");
      const key = await at.gateway.key();
      const reply = await respond(at.gateway, key, streaming);
      // The client sees nothing of the first provider.
      expect(said(reply)).toBe(created("resp_2") + delta + terminal("completed", "resp_2"));
      expect(await at.gateway.records(key, 1)).toMatchObject([
        { status: "done", provider: "second", attemptCount: 2 },
      ]);
    },
  );

  test("the opening events are buffered, and are forwarded unchanged with the content", async () => {
    const go = Promise.withResolvers<void>();
    at.providers.first.answer = async (peer, request) => {
      await raw(streamHead, ...starts.map((start) => piece(start)))(peer, request);
      await go.promise;
      await raw(piece(delta), piece(terminal()), streamEnd)(peer, request);
    };
    const client = await openResponse(at.gateway, await at.gateway.key());
    // The head waited for content, and was sent without it.
    await client.seen(": keep-alive\n\n");
    expect(said(client)).toBe("");
    go.resolve();
    await client.seen("response.completed");
    expect(said(client)).toBe(starts.join("") + delta + terminal());
  });

  test("a provider that sends opening events without end is aborted", async () => {
    const surplus = piece(responseEvent("keepalive", { padding: "x".repeat(60_000) }));
    at.providers.first.answer = async (peer) => {
      await peer.send(streamHead);
      for (;;) await peer.send(surplus);
    };
    at.providers.second.answer = responds("resp_2");
    const reply = await respond(at.gateway, await at.gateway.key(), streaming);
    expect(said(reply)).toStartWith(created("resp_2"));
  });

  test("a client that disconnects pays for the prompt only", async () => {
    at.providers.first.answer = raw(streamHead, ...starts.map((start) => piece(start)));
    const key = await at.gateway.key();
    const client = await openResponse(at.gateway, key);
    await client.seen(": keep-alive\n\n");
    client.disconnect();
    expect(await at.gateway.records(key, 1)).toMatchObject([
      {
        status: "cancelled",
        estimated: true,
        promptTokens: 2,
        completionTokens: 0,
        charge: costOf({ prompt: 2, completion: 0 }),
      },
    ]);
  });
});

test.each(contents.map((content) => [content]))(
  "after the first content no other provider is asked: %j",
  async (content) => {
    at.providers.first.answer = stream(created(), content, failing);
    const reply = await respond(at.gateway, await at.gateway.key(), streaming);
    expect(said(reply)).toStartWith(created() + content);
    expect(said(reply)).toContain('"code":"provider_error"');
    expect(at.providers.second.requests).toHaveLength(0);
  },
);
