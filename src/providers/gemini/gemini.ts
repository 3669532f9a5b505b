import { geminiEvents, readGeminiAnswer, readGeminiUsage } from "./geminiAnswer.ts";
import { encodeGeminiRequest } from "./geminiRequest.ts";
import type { ProviderAdapter } from "../provider.ts";

/**
 * The generateContent interface of the Gemini API, https://ai.google.dev/api/generate-content. It has a native
 * interface of its own for what the responses interface does, and that one is not served.
 */
export const gemini: ProviderAdapter = {
  // Never `?key=`: an address is written to logs, https://ai.google.dev/gemini-api/docs/api-key
  headers: (apiKey) => (apiKey === undefined ? {} : { "x-goog-api-key": apiKey }),
  chat: {
    encode: encodeGeminiRequest,
    read: readGeminiAnswer,
    usage: { name: "usageMetadata", read: readGeminiUsage },
    events: geminiEvents,
    eventsStandAlone: false,
    takesAll: false,
    takesStop: true,
  },
  responses: undefined,
};
