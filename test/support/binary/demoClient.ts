import OpenAI, { APIError } from "openai";
import { expect } from "bun:test";

/** The demo provider accepts any name. */
export const model = "any-model";
export const hello = [{ role: "user", content: "hello there provider" }] as const;

/** The body of a small chat request, with changes. */
export function chat(extra: object = {}): { model: string; messages: [(typeof hello)[0]] } {
  return { model, messages: [hello[0]], ...extra };
}

/** The official client, without retries. */
export function connect(baseURL: string, apiKey = "any"): OpenAI {
  return new OpenAI({ baseURL, apiKey, maxRetries: 0 });
}

/** The demo provider's whole text for the small chat request. */
export async function wholeText(client: OpenAI): Promise<string> {
  const completion = await client.chat.completions.create(chat());
  return completion.choices[0]?.message.content ?? "";
}

/** Posts without the official client, to see the raw answer. */
export function post(url: string, body: unknown, init: RequestInit = {}): Promise<Response> {
  return fetch(url, { method: "POST", body: JSON.stringify(body), ...init });
}

/** The events of a stream, each without the blank line that ends it. */
export async function frames(response: Response): Promise<string[]> {
  const text = await response.text();
  expect(text.endsWith("\n\n")).toBe(true);
  return text.slice(0, -2).split("\n\n");
}

/** The official client's error for a refusal. Throws when the call succeeds. */
export async function failure(call: PromiseLike<unknown>): Promise<APIError> {
  const error = await Promise.resolve(call).then(
    () => undefined,
    (reason: unknown) => reason,
  );
  if (!(error instanceof APIError)) throw new Error("the call was not refused", { cause: error });
  return error;
}
