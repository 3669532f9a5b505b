import {
  completion,
  choice,
  usage,
  doneEvent,
  stopEvent,
  usageEvent,
} from "../provider/chatAnswers.ts";
import { costOf } from "../gateway/gatewayConfig.ts";
import { ended, terminal } from "../provider/responsesAnswers.ts";
import { json, stream, type ProviderAnswer } from "../provider/scriptedProvider.ts";
import { chatEvent, responseEvent } from "../provider/upstreamText.ts";
import { tagOf } from "./utterance.ts";

/** What the provider behind a route says, that its answers be told from all others. */
export function backupText(number: number): string {
  return `${tagOf(number)} of the next one`;
}

/** What each of its answers costs. */
export const backupCharge = costOf({ prompt: 20, completion: 7, cached: 5, cacheWrite: 3 });

/** Answers as it should, whichever way it is asked. */
export function answerOfBackup(number: number): ProviderAnswer {
  const content = backupText(number);
  const id = `resp_of_next_${number}`;
  const part = { type: "output_text", text: content, annotations: [] };
  const output = [{ id: `msg_${id}`, type: "message", role: "assistant", content: [part] }];
  return (peer, request) => {
    const isStream = request.json["stream"] === true;
    const answer = request.requestLine.includes("/responses")
      ? isStream
        ? stream(
            responseEvent("response.output_text.delta", { output_index: 0, delta: content }),
            terminal("completed", id, { output }),
          )
        : json(ended(id, { output }))
      : isStream
        ? stream(chatEvent({ content }), stopEvent, usageEvent, doneEvent)
        : json(completion({ choices: [choice({ content })], usage }));
    return answer(peer, request);
  };
}
