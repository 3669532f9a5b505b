/** The ways in which a request can be asked and answered. */
export interface Way {
  readonly isChat: boolean;
  readonly stream: boolean;
}

export const ways: readonly Way[] = [
  { isChat: true, stream: false },
  { isChat: true, stream: true },
  { isChat: false, stream: false },
  { isChat: false, stream: true },
];

/** Usages that cannot be: what they are for is estimated. */
export const impossibleUsages: readonly unknown[] = [
  undefined,
  null,
  "12",
  {},
  { prompt_tokens: -1, completion_tokens: 1 },
  { prompt_tokens: 1, completion_tokens: 1.5 },
  { prompt_tokens: "1", completion_tokens: 1 },
  { prompt_tokens: 1, completion_tokens: 1_000_000_001 },
];

/** A request with these words as its prompt. */
export function bodyOf(
  { isChat, stream }: Way,
  words: string,
  { choices, bound }: { choices: number; bound: number | undefined },
): { path: string; body: object } {
  const body = { model: "small", stream };
  if (!isChat) {
    const bounded = { ...body, input: words, max_output_tokens: bound };
    return { path: "/v1/responses", body: bounded };
  }
  const messages = [{ role: "user", content: words }];
  const path = "/v1/chat/completions";
  return { path, body: { ...body, messages, n: choices, max_tokens: bound } };
}
