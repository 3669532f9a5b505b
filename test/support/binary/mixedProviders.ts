import { startLoadProvider } from "../provider/loadProvider.ts";
import { embeddingModel, type GatewayConfig } from "../gateway/gatewayConfig.ts";
import {
  endEvent,
  message,
  messageEvent,
  messageUsage,
  startEvent,
  stopEvent,
  textEvent,
} from "../provider/anthropicAnswers.ts";
import {
  json,
  piece,
  refusal,
  startProvider,
  streamEnd,
  streamHead,
  type ProviderAnswer,
} from "../provider/scriptedProvider.ts";

/** The prices that only a model of kind anthropic has: thousandths of a rouble per 1,000,000 tokens and 1,000 searches. */
export const soldExtras = { cacheWrite1h: 50_000, webSearch: 1000 };
/** The tier of the chat models for long prompts, which those of `claude` are. */
export const longTier = { fromPromptTokens: 20, output: 300_000 };
const tiers = [
  { from_prompt_tokens: longTier.fromPromptTokens, rub_output_per_1m: longTier.output },
];
const wordsPerAnswer = 20;

/** The providers of the mixed load. */
export interface MixedProviders {
  /**
   * The config of a gateway before them. The models: `small` and `vectors` of kind openai, `claude` of kind anthropic, and
   * `rescued`, whose own route always fails, so that its fallback `small` answers.
   */
  config(sections: NonNullable<GatewayConfig["sections"]>): GatewayConfig;
  stop(): Promise<void>;
}

/** Starts them. Streams have one word per millisecond, so that answers are always in flight. */
export function startMixedProviders(): MixedProviders {
  const demo = startLoadProvider({ wordDelayMs: 1 });
  const claude = startProvider(slowMessage);
  const failing = startProvider(refusal(500));
  const baseUrl = (port: number): string => `http://127.0.0.1:${port}/v1`;
  return {
    config: (sections) => ({
      providers: {
        local: demo.url,
        claude: { base_url: baseUrl(claude.port), kind: "anthropic" },
        failing: baseUrl(failing.port),
      },
      models: [
        { id: "small", routes: [{ provider: "local" }], settings: { tiers } },
        embeddingModel("local"),
        {
          id: "claude",
          routes: [{ provider: "claude", responses: false }],
          settings: {
            tiers,
            rub_cache_write_1h_per_1m: soldExtras.cacheWrite1h,
            rub_web_search_per_1k: soldExtras.webSearch,
          },
        },
        {
          id: "rescued",
          routes: [{ provider: "failing" }],
          settings: {
            fallbacks: ["small"],
            rub_input_per_1m: 400_000,
            rub_output_per_1m: 900_000,
            rub_cached_input_per_1m: 400_000,
            rub_cache_write_per_1m: 400_000,
          },
        },
      ],
      sections,
    }),
    async stop() {
      claude.stop();
      failing.stop();
      demo.stop();
    },
  };
}

/** 20 prompt tokens: 5 cached, 1 written for five minutes and 2 for an hour; 7 completion tokens and 2 searches. */
const usage = {
  ...messageUsage,
  cache_creation: { ephemeral_5m_input_tokens: 1, ephemeral_1h_input_tokens: 2 },
  server_tool_use: { web_search_requests: 2 },
};

const slowMessage: ProviderAnswer = async (peer, request) => {
  if (request.json["stream"] !== true) return json(message({ usage }))(peer, request);
  const block = { index: 0, content_block: { type: "text", text: "" } };
  await peer.send(streamHead);
  await peer.send(piece(startEvent + messageEvent("content_block_start", block)));
  for (let word = 0; word < wordsPerAnswer; word += 1) {
    await Bun.sleep(1);
    await peer.send(piece(textEvent(`word ${word} `)));
  }
  const end = messageEvent("content_block_stop", { index: 0 }) + endEvent(usage) + stopEvent;
  await peer.send(piece(end));
  await peer.send(streamEnd);
};
