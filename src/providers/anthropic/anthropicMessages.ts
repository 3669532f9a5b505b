import type { RequestMessage } from "../../contract/chat/chatRequestBody.ts";
import { isThinking } from "./anthropicAnswer.ts";
import { takesLateInstructions } from "./anthropicModel.ts";
import { blocksInOrder, textBlock, thinkingBlock } from "./anthropicBlocks.ts";
import { refuseRecording } from "../chat/chatFields.ts";
import { partsOf, refusalOf, unsupportedPart, type ChatPart } from "../chat/chatParts.ts";
import { answeredCallOf, argumentsOf, toolCallsOf } from "../chat/chatTools.ts";
import { exactReader, type ReadJson } from "../../lib/exactJson.ts";
import { isJsonObject, type JsonFields } from "../../lib/json.ts";
import { UnsupportedRequestError } from "../provider.ts";

/** A content block: https://platform.claude.com/docs/en/api/messages */
export type Block = JsonFields;

/** Everything that one side says before the other does. Results come first: the interface wants them there. */
export interface Turn {
  readonly role: "user" | "assistant";
  readonly results: Block[];
  readonly content: Block[];
  /** Instructions that came late, of which the model is told behind the user's turn. */
  readonly instructions: Block[];
}

/** What is sent of a turn. */
export interface Message {
  readonly role: Turn["role"] | "system";
  readonly content: readonly Block[];
}

/** A request's messages as the interface has them: the instructions that it begins with apart, sides in alternation, no blank texts. */
export interface Conversation {
  readonly system: readonly Block[];
  readonly turns: readonly Turn[];
}

/** The interface wants the user to speak first; a conversation that the assistant opens gets this before it. */
const OPENING: Block = { type: "text", text: "(no message)" };

/**
 * Instructions stay where they stand: brought to the top, those that came late would change what was sent before them,
 * and lose its cache, and Claude Fable 5.1 refuses thoughts before which anything was changed.
 * Throws UnsupportedRequestError for what the interface has no block for, and where nothing is said at all.
 */
export function conversationOf(messages: readonly RequestMessage[], model: string): Conversation {
  const system: Block[] = [];
  const turns: Turn[] = [];
  const readJson = exactReader();
  for (const [index, message] of messages.entries()) {
    const path = `messages[${index}]`;
    switch (message.role) {
      case "system":
      case "developer":
        if (turns.length === 0) system.push(...textBlocks(message, path));
        else addInstructions(turns, textBlocks(message, path), model);
        break;
      case "user":
        add(turns, "user", partsOf(message, path).flatMap(blocksOf));
        break;
      case "assistant":
        add(turns, "assistant", assistantBlocks(message, path, readJson));
        break;
      case "tool":
        add(turns, "user", [], [resultBlock(message, path)]);
    }
  }
  if (turns[0]?.role === "assistant") turns.unshift(turnOf("user", [OPENING]));
  if (turns.length > 0) return { system, turns: withoutTrailingBlanks(turns) };
  if (system.length === 0)
    throw new UnsupportedRequestError(
      "messages without a text are not supported by this model's provider",
    );
  // Instructions alone are something to answer elsewhere; here they must be the user's.
  return { system: [], turns: [turnOf("user", system)] };
}

/**
 * A turn as it is sent. Instructions must follow something that the user said; where nothing else was, they are what
 * the user says.
 */
export function messagesOf({ role, results, content, instructions }: Turn): readonly Message[] {
  const said = [...results, ...content];
  if (instructions.length === 0) return [{ role, content: said }];
  if (said.length === 0) return [{ role, content: instructions.map(marked) }];
  return [
    { role, content: said },
    { role: "system", content: instructions },
  ];
}

/** The turns that belong to calls whose results are the last that was said, from the first such call on. */
export function openCallLoop(turns: readonly Turn[]): readonly Turn[] {
  let first = turns.length;
  while ((turns[first - 1]?.results.length ?? 0) > 0 && turns[first - 2]?.role === "assistant") {
    first -= 2;
  }
  return turns.slice(first);
}

function add(
  turns: Turn[],
  role: Turn["role"],
  content: readonly Block[],
  results: readonly Block[] = [],
  instructions: readonly Block[] = [],
): void {
  if ([content, results, instructions].every(({ length }) => length === 0)) return;
  let turn = turns.at(-1);
  if (turn?.role !== role) turns.push((turn = turnOf(role, [])));
  for (const block of results) turn.results.push(block);
  for (const block of content) turn.content.push(block);
  for (const block of instructions) turn.instructions.push(block);
}

function addInstructions(turns: Turn[], blocks: readonly Block[], model: string): void {
  if (takesLateInstructions(model)) add(turns, "user", [], [], blocks);
  else add(turns, "user", blocks.map(marked));
}

/** A text that is not the user's own, in the user's turn. */
function marked(block: Block): Block {
  return { ...block, text: `<system>\n${String(block["text"])}\n</system>` };
}

function turnOf(role: Turn["role"], content: readonly Block[]): Turn {
  return { role, results: [], content: [...content], instructions: [] };
}

function assistantBlocks(
  message: RequestMessage,
  path: string,
  readJson: ReadJson,
): readonly Block[] {
  refuseRecording(message, path);
  const { thinking_blocks: given } = message as Block;
  // Only what bears the provider's own signature: it refuses thoughts that it did not have.
  const thoughts = Array.isArray(given) ? given.filter(isJsonObject).filter(isThinking) : [];
  const calls = toolCallsOf(message, path).map((call) => ({
    type: "tool_use",
    id: callId(call.id),
    name: call.name,
    input: argumentsOf(call, readJson),
  }));
  const content = message.content ?? "";
  if (typeof content === "string" && refusalOf(message) === "") {
    return blocksInOrder(thoughts, content, calls);
  }
  return [...thoughts.map(thinkingBlock), ...textBlocks(message, path), ...calls];
}

function resultBlock(message: RequestMessage, path: string): Block {
  const content = partsOf(message, path).flatMap(blocksOf);
  return {
    type: "tool_result",
    tool_use_id: callId(answeredCallOf(message, path)),
    ...(content.length === 0 ? {} : { content }),
  };
}

/**
 * The interface takes ids of letters, digits, hyphens and underscores; those of a call that another provider made may
 * hold more. That is written as its code, alike in a call and in its result, so that different ids stay different.
 */
function callId(id: string): string {
  return id.replaceAll(
    /[^A-Za-z0-9_-]/gu,
    (character) => `_${character.codePointAt(0)?.toString(16)}_`,
  );
}

function textBlocks(message: RequestMessage, path: string): readonly Block[] {
  return partsOf(message, path).flatMap((part) => {
    if (part.kind !== "text") throw unsupportedPart(part.path, part.own?.["type"]);
    return blocksOf(part);
  });
}

/** The block of a part; none for a blank text, which the interface refuses. */
function blocksOf(part: ChatPart): readonly Block[] {
  const cache = cacheControlOf(part.own);
  switch (part.kind) {
    case "text":
      return textBlock(part.text, cache);
    case "image":
      return [{ type: "image", source: sourceOf(part.source), ...cache }];
    case "file":
      return [{ ...documentOf(part), ...cache }];
    case "audio":
      throw unsupportedPart(part.path, part.own?.["type"]);
  }
}

/** PDF and plain text are what the interface reads: https://platform.claude.com/docs/en/build-with-claude/pdf-support */
function documentOf(part: ChatPart & { kind: "file" }): Block {
  const { source } = part;
  const title = part.name === undefined ? {} : { title: part.name };
  if (source.kind === "url" || source.mediaType === "application/pdf") {
    return { type: "document", source: sourceOf(source), ...title };
  }
  if (source.mediaType !== "text/plain") throw unsupportedPart(part.path, "file");
  const data = Buffer.from(source.base64, "base64").toString();
  return { type: "document", source: { type: "text", media_type: "text/plain", data }, ...title };
}

function sourceOf(source: (ChatPart & { kind: "image" })["source"]): Block {
  return source.kind === "url"
    ? { type: "url", url: source.url }
    : { type: "base64", media_type: source.mediaType, data: source.base64 };
}

/** Where the client wants the prompt's cache to end; clients that know the provider write it into their parts and tools. */
export function cacheControlOf(own: Block | undefined): Block {
  const control = own?.["cache_control"];
  return isJsonObject(control) ? { cache_control: control } : {};
}

/** The interface takes no blanks at the end of an answer that it is to go on with. */
function withoutTrailingBlanks(turns: readonly Turn[]): readonly Turn[] {
  const last = turns.at(-1);
  const block = last?.content.at(-1);
  if (last?.role !== "assistant" || typeof block?.["text"] !== "string") return turns;
  const content = [...last.content.slice(0, -1), { ...block, text: block["text"].trimEnd() }];
  return [...turns.slice(0, -1), { ...last, content }];
}
