import type { RequestMessage } from "../../contract/chat/chatRequestBody.ts";
import type { JsonFields } from "../../lib/json.ts";
import { OPENING } from "../chat/chatParts.ts";

type Part = JsonFields;
type Content = string | readonly Part[];

/**
 * Marks a user's text that came in the same message as the results of tools before it. It is often a reminder that the
 * client adds to each result.
 */
export const BESIDE_RESULTS = "beside_results";
/** The assistant's text between a tool's result and a message of the user: Mistral refuses the user right after a tool. */
const CONTINUED = "(continued)";
/** The text of a result whose pictures follow. */
const IN_NEXT_MESSAGE = "(see the next message)";

/** A message that is still collected: joining piece by piece would copy the pieces before again and again. */
interface Turn {
  readonly role: "user" | "assistant" | "tool";
  /** The other fields of each message that became part of it. The last value counts. */
  readonly fields: JsonFields[];
  readonly contents: Content[];
  readonly calls: unknown[];
}

/**
 * The conversation in the order that every server takes, also those that apply a model's template strictly: one system
 * message, first; then user and assistant in turns; results of tools right after their calls, and the assistant after them.
 * Later instructions become a text of the user. A text beside the results of tools (BESIDE_RESULTS) becomes one of the last
 * result. Before any other message of the user after a result comes one of the assistant. Pictures must not be in results:
 * see `movePictures`. Returns the list itself if it has this order.
 */
export function inStrictOrder(messages: readonly RequestMessage[]): readonly RequestMessage[] {
  if (isInOrder(messages)) return messages;
  const instructions: Content[] = [];
  const turns: Turn[] = [];
  for (const message of messages) {
    const { role, content: given, ...fields } = message as RequestMessage & JsonFields;
    const content = given ?? "";
    switch (role) {
      case "system":
      case "developer":
        if (turns.length === 0) instructions.push(content);
        else addInstructions(turns, content);
        break;
      case "user":
        addUser(turns, content, fields);
        break;
      case "assistant":
        addAnswer(turns, content, fields);
        break;
      case "tool":
        turns.push(turnOf(role, content, fields));
    }
  }
  const system = joined(instructions);
  // A request that has only instructions has no question of the user.
  if (turns.length === 0) return asMessages([{ role: "user", content: system }]);
  const first = turns[0]?.role === "user" ? [] : [{ role: "user", content: OPENING }];
  const leading = isEmpty(system) ? [] : [{ role: "system", content: system }];
  return asMessages([...leading, ...first, ...turns.map(messageOf)]);
}

/** Whether nothing would change. Most conversations have this order, and need not be written again. */
function isInOrder(messages: readonly RequestMessage[]): boolean {
  let last: RequestMessage["role"] | undefined;
  for (const message of messages) {
    const { role, content } = message;
    if (Object.hasOwn(message, BESIDE_RESULTS)) return false;
    if (Array.isArray(content) && !content.some(isNoText)) return false;
    if (!MAY_FOLLOW[role].includes(last)) return false;
    if (role === "system" && (content ?? "").length === 0) return false;
    last = role;
  }
  return last !== "system" && last !== undefined;
}

/** The roles after which a message of each role stays as it is. Undefined: it is the first one. */
const MAY_FOLLOW: Readonly<
  Record<RequestMessage["role"], readonly (RequestMessage["role"] | undefined)[]>
> = {
  system: [undefined],
  developer: [],
  user: [undefined, "system", "assistant"],
  assistant: ["user", "tool"],
  tool: ["assistant", "tool"],
};

/**
 * The conversation without pictures, files and recordings in the results of tools. They follow in a message of the user
 * after the last result of a turn. Returns the list itself if there are none.
 */
export function movePictures(messages: readonly RequestMessage[]): readonly RequestMessage[] {
  const hasAny = messages.some(
    ({ role, content }) => role === "tool" && Array.isArray(content) && content.some(isNoText),
  );
  if (!hasAny) return messages;
  const moved: JsonFields[] = [];
  let pictures: Part[] = [];
  for (const message of messages) {
    const { role, content } = message;
    if (role !== "tool" && pictures.length > 0) {
      moved.push({ role: "user", content: pictures });
      pictures = [];
    }
    if (role !== "tool" || !Array.isArray(content)) {
      moved.push(message);
      continue;
    }
    const parts: readonly Part[] = content;
    const others = parts.filter(isNoText);
    const texts = parts.filter((part) => !isNoText(part));
    pictures.push(...others);
    const isBare = texts.length === 0 && others.length > 0;
    moved.push({ ...message, content: isBare ? IN_NEXT_MESSAGE : joined([texts]) });
  }
  if (pictures.length > 0) moved.push({ role: "user", content: pictures });
  return asMessages(moved);
}

function isNoText({ type }: Part): boolean {
  return type !== "text" && type !== "refusal";
}

function addInstructions(turns: Turn[], content: Content): void {
  const told = mapTexts(content, (text) => tagged("system", text));
  const last = turns.at(-1);
  if (last?.role === "tool" || last?.role === "user") last.contents.push(told);
  else turns.push(turnOf("user", told));
}

/** Consecutive messages of the user become one. */
function addUser(turns: Turn[], content: Content, fields: JsonFields): void {
  const { [BESIDE_RESULTS]: isBeside, ...others } = fields;
  const last = turns.at(-1);
  if (last?.role === "user") last.contents.push(content);
  else if (last?.role === "tool" && isBeside === true && !hasMoreThanText(content)) {
    last.contents.push(mapTexts(content, (text) => tagged("user", text)));
  } else {
    if (last?.role === "tool") turns.push(turnOf("assistant", CONTINUED));
    turns.push(turnOf("user", content, others));
  }
}

function hasMoreThanText(content: Content): boolean {
  return typeof content !== "string" && content.some(isNoText);
}

/** Consecutive messages of the assistant become one: a server may refuse two. */
function addAnswer(
  turns: Turn[],
  content: Content,
  { tool_calls: calls, ...fields }: JsonFields,
): void {
  let last = turns.at(-1);
  if (last?.role !== "assistant") turns.push((last = turnOf("assistant", content, fields)));
  else {
    last.contents.push(content);
    last.fields.push(fields);
  }
  for (const call of Array.isArray(calls) ? (calls as unknown[]) : []) last.calls.push(call);
}

function turnOf(role: Turn["role"], content: Content, fields: JsonFields = {}): Turn {
  return { role, fields: [fields], contents: [content], calls: [] };
}

function messageOf({ role, fields: all, contents, calls }: Turn): JsonFields {
  const content = joined(contents);
  const fields = Object.fromEntries(all.flatMap((one) => Object.entries(one)));
  if (calls.length === 0) return { role, content, ...fields };
  return { role, content: isEmpty(content) ? null : content, ...fields, tool_calls: calls };
}

/** Contents one after the other: one text where all are plain texts, because some servers accept no list. */
function joined(contents: readonly Content[]): Content {
  const parts = contents.flatMap((content): readonly Part[] => {
    if (typeof content !== "string") return content;
    return content === "" ? [] : [{ type: "text", text: content }];
  });
  const arePlain = parts.every((part) => part["type"] === "text" && Object.keys(part).length === 2);
  return arePlain ? parts.map(({ text }) => String(text)).join("\n\n") : parts;
}

function mapTexts(content: Content, change: (text: string) => string): Content {
  if (typeof content === "string") return content === "" ? "" : change(content);
  return content.map((part) =>
    typeof part["text"] === "string" ? { ...part, text: change(part["text"]) } : part,
  );
}

function tagged(tag: string, text: string): string {
  return `<${tag}>\n${text}\n</${tag}>`;
}

function isEmpty(content: Content): boolean {
  return content.length === 0;
}

/** The messages of a checked chat keep its form. */
function asMessages(messages: readonly JsonFields[]): readonly RequestMessage[] {
  return messages as unknown as readonly RequestMessage[];
}
