import { chatEvent } from "./upstreamText.ts";
import { completion, doneEvent, roleEvent, stopEvent, usageEvent } from "./chatAnswers.ts";
import { embeds } from "./embeddingsAnswers.ts";
import { created, delta, responds, terminal } from "./responsesAnswers.ts";
import {
  json,
  piece,
  startProvider,
  streamEnd,
  streamHead,
  type ProviderAnswer,
} from "./scriptedProvider.ts";

const wordsPerAnswer = 20;

/** A provider under load: chat completions, responses and embeddings, with the usual usage. */
export interface LoadProvider {
  /** The `base_url` for a config. */
  readonly url: string;
  readonly openCount: number;
  stop(): void;
}

/** Starts it. It waits before each of the 20 words of a stream. */
export function startLoadProvider({ wordDelayMs }: { wordDelayMs: number }): LoadProvider {
  const streamed = (begin: string, word: string, ...end: readonly string[]): ProviderAnswer => {
    return async (peer) => {
      await peer.send(streamHead);
      await peer.send(piece(begin));
      for (let index = 0; index < wordsPerAnswer; index += 1) {
        if (wordDelayMs > 0) await Bun.sleep(wordDelayMs);
        await peer.send(piece(word));
      }
      await peer.send(Buffer.concat([piece(end.join("")), Buffer.from(streamEnd)]));
    };
  };
  const inJson = { chat: json(completion()), responses: responds(), embeddings: embeds() };
  const word = chatEvent({ content: " word" });
  const inStreams = {
    chat: streamed(roleEvent, word, stopEvent, usageEvent, doneEvent),
    responses: streamed(created(), delta, terminal()),
    embeddings: embeds(),
  };
  const provider = startProvider(async (peer, request) => {
    // A long load would keep all its requests.
    provider.forget();
    const answers = request.json["stream"] === true ? inStreams : inJson;
    const path = /\/v1\/(chat|responses|embeddings)/.exec(request.requestLine)?.[1];
    await answers[path as keyof typeof answers](peer, request);
  });
  return {
    url: `http://127.0.0.1:${provider.port}/v1`,
    get openCount() {
      return provider.openCount;
    },
    stop: () => provider.stop(),
  };
}
