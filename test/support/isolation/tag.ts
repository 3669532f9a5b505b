import { openaiDialect } from "../../providers/conformance/openaiDialect.ts";
import { openaiResponsesDialect } from "../../providers/conformance/openaiResponsesDialect.ts";

/** One request: whose it is, and which of that tenant's. */
export interface Tag {
  readonly tenant: number;
  readonly number: number;
}

export const everyForm = ["chat", "chat stream", "responses", "responses stream"] as const;
export type TaggedForm = (typeof everyForm)[number];

/** The text of a tag: `t03n000127`. */
export function tagText({ tenant, number }: Tag): string {
  return `t${String(tenant).padStart(2, "0")}n${String(number).padStart(6, "0")}`;
}

/** Every tag in a text, once, as text. */
export function tagsIn(text: string): readonly string[] {
  return [...new Set(text.match(/t\d\dn\d{6}/g))];
}

export function tagOf(text: string): Tag {
  return { tenant: Number(text.slice(1, 3)), number: Number(text.slice(4, 10)) };
}

/** The reported tokens of a request: no other request has these two figures. */
export function tokensOf({ tenant, number }: Tag): { prompt: number; completion: number } {
  return { prompt: tenant + 1, completion: number + 1 };
}

const LONG_PROMPT_BYTES = 300_000;
/** The prompts of each tenant are longer than those of the previous one by this. */
const BYTES_PER_TENANT = 8;

/** The prompt of a request: its tag and filler. */
export function promptFor(tag: Tag, isLong: boolean): string {
  const padding = tag.tenant * BYTES_PER_TENANT + (isLong ? LONG_PROMPT_BYTES : 0);
  return tagText(tag) + "x".repeat(padding);
}

/** The estimates of a tenant's short and of its long prompts: of no other tenant are they the same. */
export function promptEstimates(tenant: number): readonly number[] {
  return [false, true].map((isLong) =>
    Math.ceil(promptFor({ tenant, number: 0 }, isLong).length / BYTES_PER_TOKEN),
  );
}

const BYTES_PER_TOKEN = 4;
const LONG_EVERY = 40;
const LONG_ECHOES = 2000;

/** The number of repetitions of the tag in the answer: most are short, and some need several reads. */
function echoes({ number }: Tag): number {
  return number % LONG_EVERY === 0 ? LONG_ECHOES : 1 + (number % 5);
}

/** The whole text of the answer. */
export function answerTextFor(tag: Tag): string {
  return tagText(tag).repeat(echoes(tag));
}

/** The id of the response that a provider makes for a request to the responses interface. */
export function responseIdOf(tag: Tag): string {
  return `resp_${tagText(tag)}`;
}

/** The provider's body for a request: one text of JSON, or the events of a stream. */
export function bodyOf(form: TaggedForm, tag: Tag): readonly string[] {
  const dialect = form.startsWith("chat") ? openaiDialect : openaiResponsesDialect;
  const usage = { ...tokensOf(tag), cached: 0, cacheWrite: 0, reasoning: 0 };
  const answer = { text: answerTextFor(tag), finish: "stop", usage } as const;
  const named = (text: string): string => text.replaceAll('"resp_1"', `"${responseIdOf(tag)}"`);
  return form.endsWith("stream")
    ? named(dialect.stream(answer)).split(/(?<=\n\n)(?=.)/)
    : [named(dialect.json(answer))];
}
