import { choice, completion, doneEvent, stopEvent, usageOnly } from "../provider/chatAnswers.ts";
import { chunksOf } from "../gateway/chatCalls.ts";
import {
  json,
  stream,
  type ProviderAnswer,
  type ReceivedRequest,
} from "../provider/scriptedProvider.ts";
import { chatEvent } from "../provider/upstreamText.ts";

/** The only message of a request, which is its number. */
export function numbered(number: number): { messages: { role: string; content: string }[] } {
  return { messages: [{ role: "user", content: String(number) }] };
}

export function numberIn({ json }: ReceivedRequest): number {
  const [message] = json["messages"] as { content: string }[];
  return Number(message?.content);
}

/** Answers a numbered request with its number, and with the usage that belongs to it. */
export const answerNumbered: ProviderAnswer = (peer, request) => {
  const number = numberIn(request);
  const { prompt, completion: said, cached } = tokensOf(number);
  const usage = {
    prompt_tokens: prompt,
    completion_tokens: said,
    total_tokens: prompt + said,
    prompt_tokens_details: { cached_tokens: cached },
  };
  const content = `answer ${number}`;
  const answer =
    request.json["stream"] === true
      ? stream(chatEvent({ content }), stopEvent, usageOnly(usage), doneEvent)
      : json(completion({ choices: [choice({ content })], usage }));
  return answer(peer, request);
};

/** Whether a reply is the whole answer with this number. */
export function isAnswer(number: number, reply: { text: string; body: unknown }): boolean {
  const content = `answer ${number}`;
  if (reply.body === undefined) {
    const chunks = chunksOf(reply) as unknown as { choices: { delta: object }[] }[];
    return (
      JSON.stringify(chunks.map(({ choices }) => choices[0]?.delta)) ===
      JSON.stringify([{ content }, {}])
    );
  }
  const { choices } = reply.body as { choices?: { message: { content: string } }[] };
  return choices?.[0]?.message.content === content;
}

/** The cost of the answer in nano-roubles. */
export function numberedCost(number: number): bigint {
  const { prompt, completion, cached } = tokensOf(number);
  return BigInt(prompt - cached) * 25_000n + BigInt(cached) * 2500n + BigInt(completion) * 200_000n;
}

function tokensOf(number: number): { prompt: number; completion: number; cached: number } {
  return { prompt: 7 + (number % 97), completion: 1 + (number % 89), cached: number % 7 };
}
