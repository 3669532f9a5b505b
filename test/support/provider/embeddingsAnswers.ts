import { json, text, type ProviderAnswer } from "./scriptedProvider.ts";

/** Answers of the embeddings interface, in the form that OpenAI documents. */

/** The usage of the usual answer. */
export const embeddingsUsage = { prompt_tokens: 20, total_tokens: 20 };

/** An answer with one vector; `changes` override its fields. */
export function vectors(changes: object = {}): Record<string, unknown> {
  return {
    object: "list",
    data: [{ object: "embedding", index: 0, embedding: [0.25, -0.5, 1e-7] }],
    model: "model-of-the-provider",
    usage: embeddingsUsage,
    ...changes,
  };
}

export function embeds(changes: object = {}): ProviderAnswer {
  return json(vectors(changes));
}

/** An answer with these members in this order, as texts, and white space that no serializer writes. */
export function embedsText(...members: readonly string[]): ProviderAnswer {
  return text(oddText(...members));
}

export function oddText(...members: readonly string[]): string {
  return ` {\r\n${members.join(" ,\t")} }\n`;
}

/** A `data` member with so many vectors of these numbers. */
export function dataText(count: number, numbers = 1536): string {
  const vector = Array.from({ length: numbers }, (_, at) => ((at % 7) - 3) / 1024.5).join(", ");
  const items = Array.from(
    { length: count },
    (_, index) => `{"object":"embedding","index":${index},"embedding":[${vector}]}`,
  );
  return `"data":[${items.join(",\n")}]`;
}

/** An answer of Gemini's batchEmbedContents: https://ai.google.dev/api/embeddings */
export function geminiVectors(
  values: readonly (readonly number[])[],
  promptTokenCount?: number,
): object {
  return {
    embeddings: values.map((vector) => ({ values: vector })),
    ...(promptTokenCount !== undefined && { usageMetadata: { promptTokenCount } }),
  };
}
