import {
  message,
  startEvent,
  textEvent,
  usualMessageEvents,
} from "../provider/anthropicAnswers.ts";
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

/** The ways to ask for an answer. Messages are native over kind anthropic, and translated over kind openai. */
export type Form =
  | "chat"
  | "chat stream"
  | "responses"
  | "responses stream"
  | "messages"
  | "messages stream"
  | "translated messages"
  | "translated messages stream"
  | "embeddings";
export const chatForms = ["chat", "chat stream"] as const;
export const responsesForms = ["responses", "responses stream"] as const;
export const messagesForms = ["messages", "messages stream"] as const;
export const translatedForms = ["translated messages", "translated messages stream"] as const;
export const jsonForms = [
  "chat",
  "responses",
  "messages",
  "translated messages",
  "embeddings",
] as const;
export const streamForms = [
  "chat stream",
  "responses stream",
  "messages stream",
  "translated messages stream",
] as const;
/** Streams for which the provider sends a chat. */
export const chatStreamForms = ["chat stream", "translated messages stream"] as const;
/** Those of OpenAI's interfaces whose answer is generated text. */
export const completionForms = [...chatForms, ...responsesForms] as const;
export type CompletionForm = (typeof completionForms)[number];
export const everyForm = [...jsonForms, ...streamForms] as const;

/** The interface of the provider that a form reaches. */
export function interfaceOf(form: Form): "chat" | "responses" | "messages" | "embeddings" {
  if (form.startsWith("translated")) return "chat";
  return form.replace(" stream", "") as ReturnType<typeof interfaceOf>;
}

/** Whether the client gets Anthropic's form of answers and errors. */
export function isMessagesForm(form: Form): boolean {
  return form.includes("messages");
}

/** Answers a request faultily; `client` is the waiting client. */
export type FaultyAnswer = (
  peer: RawPeer,
  request: ReceivedRequest,
  client: WaitingClient,
) => Promise<void> | void;

/** The form in which the provider was asked. */
function formOf({ requestLine, json }: ReceivedRequest): Form {
  if (requestLine.includes("/embeddings")) return "embeddings";
  const face = (["responses", "messages"] as const).find((one) => requestLine.includes(`/${one}`));
  return json["stream"] === true ? `${face ?? "chat"} stream` : (face ?? "chat");
}

const chatBodies = {
  json: JSON.stringify(completion()),
  stream: [roleEvent, helloEvent, thereEvent, stopEvent, usageEvent, doneEvent].join(""),
};

/** The usual answer's body in each form, as the provider sends it. */
export const usualBody: Readonly<Record<Form, string>> = {
  chat: chatBodies.json,
  "chat stream": chatBodies.stream,
  responses: JSON.stringify(ended()),
  "responses stream": created() + delta + terminal(),
  messages: JSON.stringify(message()),
  "messages stream": usualMessageEvents.join(""),
  "translated messages": chatBodies.json,
  "translated messages stream": chatBodies.stream,
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

/** One value for each interface that streams. */
export interface ByInterface<T> {
  readonly chat: T;
  readonly responses: T;
  readonly messages: T;
}

/** The value for the interface of a form that streams. */
export function inInterface<T>(form: Form, values: ByInterface<T>): T {
  const found = interfaceOf(form);
  if (found === "embeddings") throw new Error("embeddings do not stream");
  return values[found];
}

/** A complete event stream in each of the interfaces, one chunk per text. */
export function streams(texts: ByInterface<readonly (string | Uint8Array)[]>): FaultyAnswer {
  return byForm((form) => stream(...inInterface(form, texts)));
}

/** The events of the beginning of an answer with content, in each of the interfaces. */
export const begunEvents: ByInterface<readonly string[]> = {
  chat: [roleEvent, helloEvent],
  responses: [created(), delta],
  messages: [startEvent, textEvent("Hello")],
};

/** The beginning of an event stream with content; the client then has `begun`. */
export const beginning = byForm((form) =>
  raw(streamHead, ...inInterface(form, begunEvents).map(piece)),
);

/** What a client receives of the beginning. */
export const begun = {
  chat: ["", "Hello"],
  responses: [created() + delta, 2],
  messages: begunEvents.messages.join(""),
} as const;
