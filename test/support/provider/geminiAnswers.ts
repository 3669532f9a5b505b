import { json, stream, type ProviderAnswer } from "./scriptedProvider.ts";

/** Answers of the generateContent interface, in the form of https://ai.google.dev/api/generate-content. */

/** The usual answer: 100 prompt tokens, 40 of them cached, 20 completion tokens and 30 reasoning tokens beside them. */
export const usageMetadata = {
  promptTokenCount: 100,
  cachedContentTokenCount: 40,
  candidatesTokenCount: 20,
  thoughtsTokenCount: 30,
  totalTokenCount: 150,
  promptTokensDetails: [{ modality: "TEXT", tokenCount: 100 }],
};
/** The billed tokens of this usage. */
export const billed = { prompt: 100, cached: 40, completion: 50 };

/** A response whose one candidate has these parts; `more` overrides fields. */
export function saying(parts: readonly object[], finishReason?: string, more: object = {}): object {
  return {
    candidates: [
      { content: { parts, role: "model" }, ...(finishReason && { finishReason }), index: 0 },
    ],
    modelVersion: "gemini-2.5-flash",
    responseId: "mAitaLmkHPPlz7IPvtfUqQ4",
    ...more,
  };
}

export function thought(text: string): object {
  return { text, thought: true };
}

export function geminiEvent(response: object): string {
  return `data: ${JSON.stringify(response)}\r\n\r\n`;
}

/** The events of the usual stream. Their usage grows. */
export const geminiEvents: readonly string[] = [
  saying([thought("Hm.")], undefined, {
    usageMetadata: { promptTokenCount: 100, thoughtsTokenCount: 30, totalTokenCount: 130 },
  }),
  saying([{ text: "Hello" }], undefined, {
    usageMetadata: { ...usageMetadata, candidatesTokenCount: 8, totalTokenCount: 138 },
  }),
  saying([{ text: " there" }], "STOP", { usageMetadata }),
].map(geminiEvent);

/** The usual answer in whichever form was asked for. */
export const usualGemini: ProviderAnswer = (peer, request) =>
  request.requestLine.includes(":streamGenerateContent?alt=sse ")
    ? stream(...geminiEvents)(peer, request)
    : json(saying([thought("Hm."), { text: "Hello there" }], "STOP", { usageMetadata }))(
        peer,
        request,
      );

/** An error in Google's form. */
export function geminiRefusal(
  status: number,
  word: string,
  message = "refused",
  details: readonly object[] = [],
): ProviderAnswer {
  return json({ error: { code: status, message, status: word, details } }, { status });
}
