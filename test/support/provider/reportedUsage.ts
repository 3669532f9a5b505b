import {
  endEvent,
  message,
  messageEvent,
  stopEvent as messageStop,
  textEvent,
} from "./anthropicAnswers.ts";
import { completion, doneEvent, helloEvent, stopEvent, thereEvent } from "./chatAnswers.ts";
import { byForm, interfaceOf, type FaultyAnswer, type Form } from "../faults/faultAnswers.ts";
import { vectors } from "./embeddingsAnswers.ts";
import { created, delta, ended } from "./responsesAnswers.ts";
import { stream, text } from "./scriptedProvider.ts";
import { chatEvent, responseEvent } from "./upstreamText.ts";

/** A reported usage; each figure is a JSON text, so that it can be any number or no number. */
export interface Figures {
  readonly prompt?: string;
  readonly completion?: string;
  readonly total?: string;
  readonly cached?: string;
  readonly cacheWrite?: string;
}

/** Figures, or a JSON text instead of the whole object; undefined: no usage is reported. */
export type Reported = Figures | string | undefined;

/** The usual answer, with this for its usage. */
export function reporting(reported: Reported): FaultyAnswer {
  return byForm((form) => {
    const body = bodyReporting(form, reported);
    return form.endsWith("stream") ? stream(body) : text(body);
  });
}

/** The body of that answer in one form. */
export function bodyReporting(form: Form, reported: Reported): string {
  const usage = usageText(form, reported);
  switch (form) {
    case "chat":
    case "translated messages":
      return withUsage(completion(), usage);
    case "chat stream":
    case "translated messages stream":
      return [helloEvent, thereEvent, stopEvent, usageEvent(usage), doneEvent].join("");
    case "responses":
      return withUsage(ended(), usage);
    case "responses stream": {
      const last = responseEvent("response.completed", { response: placeholder });
      return created() + delta + last.replace(`"${placeholder}"`, withUsage(ended(), usage));
    }
    case "messages":
      return withUsage(message(), usage);
    case "messages stream": {
      const start = messageEvent("message_start", { message: message({ content: [], usage: {} }) });
      const end = endEvent(placeholder).replace(`"${placeholder}"`, () => usage ?? "{}");
      return start + textEvent("Hello") + textEvent(" there") + end + messageStop;
    }
    case "embeddings":
      return withUsage(vectors(), usage);
  }
}

const placeholder = "in place of this";

/** The text of an object whose `usage` is this JSON text. */
function withUsage(object: object, usage: string | undefined): string {
  const marked = { ...object, usage: usage === undefined ? undefined : placeholder };
  return JSON.stringify(marked).replace(`"${placeholder}"`, () => usage ?? "");
}

function usageEvent(usage: string | undefined): string {
  const event = chatEvent({}, null, { choices: [], usage: placeholder });
  return usage === undefined ? "" : event.replace(`"${placeholder}"`, () => usage);
}

/** The usage with the field names of the form's interface. */
function usageText(form: Form, reported: Reported): string | undefined {
  if (reported === undefined || typeof reported === "string") return reported;
  const { prompt, completion, total, cached, cacheWrite } = reported;
  if (interfaceOf(form) === "messages") {
    return objectText({
      input_tokens: prompt,
      cache_read_input_tokens: cached,
      cache_creation_input_tokens: cacheWrite,
      output_tokens: completion,
    });
  }
  const [input, output] = form.startsWith("responses")
    ? ["input", "output"]
    : ["prompt", "completion"];
  const details = objectText({ cached_tokens: cached, cache_write_tokens: cacheWrite });
  return objectText({
    [`${input}_tokens`]: prompt,
    [`${output}_tokens`]: completion,
    total_tokens: total,
    [`${input}_tokens_details`]: details,
  });
}

function objectText(members: Readonly<Record<string, string | undefined>>): string {
  const present = Object.entries(members).filter(([, value]) => value !== undefined);
  return `{${present.map(([name, value]) => `${JSON.stringify(name)}:${value}`).join(",")}}`;
}
