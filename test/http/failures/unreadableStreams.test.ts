import { describe, expect, test } from "bun:test";
import { chat, expectRefusal, noProvider, type Reply } from "../../support/gateway/chatCalls.ts";
import { collidingNames } from "../../support/provider/collidingNames.ts";
import { openBefore, upstreamKey } from "../../support/gateway/gatewayUnderTest.ts";
import { geminiEvent, saying } from "../../support/provider/geminiAnswers.ts";
import { terminal } from "../../support/provider/responsesAnswers.ts";
import { respond } from "../../support/gateway/responsesCalls.ts";
import { stream } from "../../support/provider/scriptedProvider.ts";
import { chatEvent } from "../../support/provider/upstreamText.ts";

/** A caller can make a stream unparsable before its first content. A failover would repeat the whole work. */
const ids = ["one", "two", "three"] as const;
const at = openBefore(ids, (urls) => ({
  providers: {
    ...urls,
    ...Object.fromEntries(
      ids.map((id) => [
        `google_${id}`,
        { kind: "gemini", base_url: urls[id], api_key: upstreamKey },
      ]),
    ),
  },
  models: [
    { id: "small", routes: ids.map((provider) => ({ provider })) },
    { id: "over", routes: ids.map((provider) => ({ provider, model: "over", api: "responses" })) },
    { id: "google", routes: ids.map((id) => ({ provider: `google_${id}`, responses: false })) },
  ],
}));

const costly = collidingNames(500);
const deep = (event: string) =>
  event.replace('"nested too deep"', "[".repeat(1001) + "]".repeat(1001));
const chatOf = (model: string) => () => chat(at.gateway, at.gateway.key(), { model, stream: true });
const responseStream = () => respond(at.gateway, at.gateway.key(), { stream: true });
const calling = (args: object) =>
  geminiEvent(saying([{ functionCall: { name: "f", args } }], "STOP"));

describe("a stream that cannot be parsed before its first content", () => {
  test.each<[string, () => Promise<Reply>, string]>([
    ["by names that collide", chatOf("small"), chatEvent({ content: "x", names: costly })],
    ["by the depth of a call of Gemini", chatOf("google"), deep(calling({ a: "nested too deep" }))],
    ["by colliding names in a call of Gemini", chatOf("google"), calling({ costly })],
    [
      "by colliding names at the end",
      chatOf("over"),
      terminal("completed", "resp_1", { names: costly }),
    ],
    [
      "by more choices than any answer has",
      chatOf("small"),
      chatEvent({}, null, {
        choices: Array.from({ length: 1025 }, () => ({ index: 0, delta: { content: "x" } })),
      }),
    ],
    ["in a response", responseStream, terminal("completed", "resp_1", { names: costly })],
  ])("%s: 502, and only one route is asked", async (_, make, event) => {
    for (const id of ids) at.providers[id].answer = stream(event);
    const reply = await make();
    expectRefusal(reply, noProvider);
    expect(ids.reduce((sum, id) => sum + at.providers[id].requests.length, 0)).toBe(1);
    expect(at.gateway.store.requests.attempts(reply.id)).toMatchObject([
      { outcome: "isolated failure", status: 200 },
    ]);
  });
});
