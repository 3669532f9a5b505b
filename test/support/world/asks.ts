import type { CompletionForm } from "../faults/faultAnswers.ts";
import { postBytes } from "../gateway/rawClient.ts";

/** What is asked for: more fields come behind the prompt. */
interface Asked extends Readonly<Record<string, unknown>> {
  readonly model: string;
  readonly prompt: string;
}

/** The bytes of a request over an interface of OpenAI. */
export function requestFor(
  key: string,
  form: CompletionForm,
  { model, prompt, ...more }: Asked,
): Buffer {
  const isChat = form.startsWith("chat");
  const said = isChat ? { messages: [{ role: "user", content: prompt }] } : { input: prompt };
  const body = { model, stream: form.endsWith("stream"), ...said, ...more };
  const path = isChat ? "/v1/chat/completions" : "/v1/responses";
  return Buffer.from(postBytes(path, key, JSON.stringify(body)));
}

/** A chat's stream shows its usage. */
export const showsUsage = { stream_options: { include_usage: true } };
