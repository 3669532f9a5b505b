import {
  json,
  piece,
  raw,
  refusal,
  stream,
  streamHead,
  type ProviderAnswer,
  type ReceivedRequest,
} from "../provider/scriptedProvider.ts";
import { chatScript } from "./chatScript.ts";
import { messagesScript } from "./messagesScript.ts";
import { responsesScript } from "./responsesScript.ts";
import { type ModelOutput, type Script, object, tool, toolInput } from "./script.ts";

/** The text with which every answer begins that does not come to its end. */
export const beginning = "Hel";

/** Answers as `whole` does. The AI SDK names a service tier only to models that it knows to have it. */
export const tieredModel = "gpt-4o";

/** What each model does, on either interface; `gone` is a model whose provider does not listen. */
export const models = [
  "whole",
  tieredModel,
  "bounded",
  "tool",
  "object",
  "refuses",
  "cut",
  "reports",
  "fails",
  "held",
];

/** How each interface writes it. */
const scripts = {
  chat: chatScript,
  responses: responsesScript,
  messages: messagesScript,
} as const;

/** The interface that a provider is asked on. */
export function scriptOf({ requestLine }: ReceivedRequest): Script {
  const [, path = ""] = requestLine.split(" ");
  if (path.endsWith("/responses")) return scripts.responses;
  return path.endsWith("/messages") ? scripts.messages : scripts.chat;
}

/** Answers as its model does; `models` lists them. */
export const answerByModel: ProviderAnswer = (peer, request) => {
  const script = scriptOf(request);
  const isStream = request.json["stream"] === true;
  const says = (said: ModelOutput): ProviderAnswer =>
    isStream ? stream(...script.events(said)) : json(script.whole(said));
  const whole = says({ text: "Hello there" });
  const answers: Readonly<Record<string, ProviderAnswer>> = {
    whole,
    [tieredModel]: whole,
    bounded: says({ text: "Hello", isBounded: true }),
    tool: says(
      script.bringsResult(request)
        ? { text: "It is mild" }
        : { tool: tool.name, input: JSON.stringify(toolInput) },
    ),
    object: says({ text: JSON.stringify(object) }),
    refuses: refusal(400, "the prompt is too long"),
    async cut(peer, request) {
      await begins(script)(peer, request);
      peer.reset();
    },
    reports: stream(...script.beginning(beginning), script.report),
    fails: isStream ? stream(...script.failure(beginning)) : json(script.failed),
    held: begins(script),
  };
  const answer = answers[String(request.json["model"])];
  if (answer === undefined) throw new Error("no such model");
  return answer(peer, request);
};

/** A stream that has begun, and goes no further. */
function begins(script: Script): ProviderAnswer {
  return raw(streamHead, ...script.beginning(beginning).map((event) => piece(event)));
}
