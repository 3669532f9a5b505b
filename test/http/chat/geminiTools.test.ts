import { describe, expect, test } from "bun:test";
import { chat, chunksOf } from "../../support/gateway/chatCalls.ts";
import { openBefore } from "../../support/gateway/gatewayUnderTest.ts";
import {
  geminiEvent,
  saying,
  usageMetadata,
  usualGemini,
} from "../../support/provider/geminiAnswers.ts";
import { json, stream } from "../../support/provider/scriptedProvider.ts";

const at = openBefore(["google"], ({ google }) => ({
  providers: { google: { kind: "gemini", base_url: google } },
  models: [
    {
      id: "small",
      routes: [{ provider: "google", model: "gemini-3.1-pro-preview", responses: false }],
    },
  ],
}));

const { google } = at.providers;
const hello = { role: "user", content: "hello" };

describe("the signature of a thought", () => {
  const call = { name: "clock", args: { zone: "UTC" } };

  test.each([false, true])(
    "comes back with a call that is sent back unchanged (stream: %j)",
    async (isStream) => {
      const said = saying([{ functionCall: call, thoughtSignature: "CtkBAdHtim8=" }], "STOP", {
        usageMetadata,
      });
      google.answer = isStream ? stream(geminiEvent(said)) : json(said);
      const tools = [{ type: "function", function: { name: "clock" } }];
      const key = at.gateway.key();
      const first = await chat(at.gateway, key, { tools, stream: isStream });
      const calls = isStream ? calledIn(chunksOf(first)) : calledIn([first.body]);
      google.answer = usualGemini;
      const messages = [
        hello,
        { role: "assistant", content: null, tool_calls: calls },
        { role: "tool", tool_call_id: calls[0]?.id, content: "noon" },
      ];
      expect((await chat(at.gateway, key, { tools, messages })).status).toBe(200);
      expect((await google.request(1)).json["contents"]).toEqual([
        { role: "user", parts: [{ text: "hello" }] },
        {
          role: "model",
          parts: [
            {
              functionCall: { id: "call_mAitaLmkHPPlz7IPvtfUqQ4_0_0", ...call },
              thoughtSignature: "CtkBAdHtim8=",
            },
          ],
        },
        {
          role: "user",
          parts: [
            {
              functionResponse: {
                id: "call_mAitaLmkHPPlz7IPvtfUqQ4_0_0",
                name: "clock",
                response: { output: "noon" },
              },
            },
          ],
        },
      ]);
    },
  );
});

/** The calls of an answer, as a client keeps them to send them back. */
function calledIn(answers: readonly unknown[]): readonly { readonly id: string }[] {
  return (answers as readonly Answer[]).flatMap(({ choices: [choice] }) => {
    const { tool_calls: calls } = choice?.message ?? choice?.delta ?? {};
    return calls ?? [];
  });
}

interface Answer {
  readonly choices: readonly { readonly message?: Message; readonly delta?: Message }[];
}

interface Message {
  readonly tool_calls?: readonly { readonly id: string }[];
}
