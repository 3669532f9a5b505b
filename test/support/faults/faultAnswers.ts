import {
  completion,
  doneEvent,
  helloEvent,
  roleEvent,
  stopEvent,
  thereEvent,
  usageEvent,
} from "../provider/chatAnswers.ts";
import type { WaitingClient } from "./faultSetup.ts";
import { vectors } from "../provider/embeddingsAnswers.ts";
import type { RawPeer } from "../provider/rawServer.ts";
import { created, delta, ended, terminal } from "../provider/responsesAnswers.ts";
import {
  piece,
  raw,
  stream,
  streamHead,
  text,
  type ProviderAnswer,
  type ReceivedRequest,
} from "../provider/scriptedProvider.ts";

/** The ways to ask for an answer. */
export type Form = "chat" | "chat stream" | "responses" | "responses stream" | "embeddings";
export const jsonForms = ["chat", "responses", "embeddings"] as const;
export const streamForms = ["chat stream", "responses stream"] as const;
export const chatForms = ["chat", "chat stream"] as const;
export const responsesForms = ["responses", "responses stream"] as const;
/** Those whose answer is generated text. */
export const completionForms = ["chat", "responses", ...streamForms] as const;
export type CompletionForm = (typeof completionForms)[number];
export const everyForm = [...jsonForms, ...streamForms] as const;

/** Answers a request faultily; `client` is the waiting client. */
export type FaultyAnswer = (
  peer: RawPeer,
  request: ReceivedRequest,
  client: WaitingClient,
) => Promise<void> | void;

/** The form in which the provider was asked. */
function formOf({ requestLine, json }: ReceivedRequest): Form {
  if (requestLine.includes("/embeddings")) return "embeddings";
  const face = requestLine.includes("/responses") ? "responses" : "chat";
  return json["stream"] === true ? `${face} stream` : face;
}

/** The usual answer's body in each form, as the provider sends it. */
export const usualBody: Readonly<Record<Form, string>> = {
  chat: JSON.stringify(completion()),
  "chat stream": [roleEvent, helloEvent, thereEvent, stopEvent, usageEvent, doneEvent].join(""),
  responses: JSON.stringify(ended()),
  "responses stream": created() + delta + terminal(),
  embeddings: JSON.stringify(vectors()),
};

/** The media type that belongs to a form. */
export function typeOf(form: Form): string {
  return form.endsWith("stream") ? "text/event-stream" : "application/json";
}

/** A provider that does what its interface promises. */
export const validAnswer: ProviderAnswer = (peer, request) => {
  const form = formOf(request);
  return text(usualBody[form], { type: typeOf(form) })(peer, request);
};

/** One answer for each form of request. */
export function byForm(answerOf: (form: Form) => FaultyAnswer): FaultyAnswer {
  return (peer, request, client) => answerOf(formOf(request))(peer, request, client);
}

/** A complete event stream in each of the two interfaces, one chunk per text. */
export function streams(texts: {
  chat: readonly (string | Uint8Array)[];
  responses: readonly (string | Uint8Array)[];
}): FaultyAnswer {
  return byForm((form) => stream(...(form === "chat stream" ? texts.chat : texts.responses)));
}

/** The beginning of an event stream with content; the client then has `begun`. */
export const beginning = byForm((form) =>
  raw(
    streamHead,
    ...(form === "chat stream" ? begun.chatEvents : begun.responsesEvents).map(piece),
  ),
);

/** The content of the beginning, and what a client receives of it. */
export const begun = {
  chatEvents: [roleEvent, helloEvent],
  responsesEvents: [created(), delta],
  chat: ["", "Hello"],
  responses: [created() + delta, 2],
} as const;
