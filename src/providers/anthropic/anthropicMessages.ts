import type { ChatRequestBody, RequestMessage } from "../../contract/chat/chatRequestBody.ts";
import { isReturnableReasoning } from "./anthropicAnswer.ts";
import { blocksInOrder, textBlock, returnedReasoning } from "./anthropicBlocks.ts";
import { cacheControlOf, markedMessages, withMark } from "./promptCache.ts";
import { OPENING, refuseRecording, partsOf, refusalOf, type ChatPart } from "../chat/chatParts.ts";
import { answeredCallOf, argumentsOf, toolCallsOf } from "../chat/chatTools.ts";
import { exactReader, type ReadJson } from "../../lib/exactJson.ts";
import { isJsonObject, type JsonFields } from "../../lib/json.ts";
import { unsupported, UnsupportedRequestError } from "../provider.ts";

/** A content block: https://platform.claude.com/docs/en/api/messages */
export type Block = JsonFields;

/** Consecutive messages of one side. The interface wants results of calls before other content. */
export interface Turn {
  readonly role: "user" | "assistant";
  readonly results: Block[];
  readonly content: Block[];
  /** Instructions within the conversation; they follow the user's turn. */
  readonly instructions: Block[];
}

/** A message as it is sent. */
export interface Message {
  readonly role: Turn["role"] | "system";
  readonly content: readonly Block[];
}

/** The leading instructions, and turns that alternate between the sides. */
export interface Conversation {
  readonly system: readonly Block[];
  readonly turns: readonly Turn[];
}

/**
 * Encodes a conversation. Later instructions stay in their place: moving them to the top would invalidate the prompt
 * cache, and Claude Fable 5.1 refuses reasoning after a changed prefix. Throws UnsupportedRequestError for content
 * without a counterpart and for a conversation without any.
 */
export function conversationOf(body: ChatRequestBody, model: string): Conversation {
  const system: Block[] = [];
  const turns: Turn[] = [];
  const readJson = exactReader();
  const marked = markedMessages(body);
  for (const [index, message] of body.messages.entries()) {
    const path = `messages[${index}]`;
    const mark = (blocks: readonly Block[]): readonly Block[] =>
      marked.has(message) ? withMark(blocks, message) : blocks;
    switch (message.role) {
      case "system":
      case "developer":
        if (turns.length === 0) system.push(...mark(textBlocks(message, path)));
        else addInstructions(turns, mark(textBlocks(message, path)), model);
        break;
      case "user":
        add(turns, "user", mark(partsOf(message, path).flatMap(blocksOf)));
        break;
      case "assistant":
        add(turns, "assistant", mark(assistantBlocks(message, path, readJson)));
        break;
      case "tool":
        add(turns, "user", [], mark([resultBlock(message, path)]));
    }
  }
  if (turns[0]?.role === "assistant")
    turns.unshift(turnOf("user", [{ type: "text", text: OPENING }]));
  // Blank texts are left out. The interface would take an answer at the end for one that it must continue.
  if (body.messages.at(-1)?.role === "user" && turns.at(-1)?.role === "assistant")
    turns.push(turnOf("user", [{ type: "text", text: OPENING }]));
  if (turns.length > 0) return { system, turns: withoutTrailingBlanks(turns) };
  if (system.length === 0)
    throw new UnsupportedRequestError(
      "messages without a text are not supported by this model's provider",
    );
  // The interface refuses a request that has only instructions, so they become the user's content.
  return { system: [], turns: [turnOf("user", system)] };
}

/** The messages of one turn. Instructions must follow content of the user; without any they become that content. */
export function messagesOf({ role, results, content, instructions }: Turn): readonly Message[] {
  const blocks = [...results, ...content];
  if (instructions.length === 0) return [{ role, content: blocks }];
  if (blocks.length === 0) return [{ role, content: instructions.map(asUserText) }];
  return [
    { role, content: blocks },
    { role: "system", content: instructions },
  ];
}

/** The turns of a tool loop whose results are the last messages, from the first call on. */
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
  if (supportsLateInstructions(model)) add(turns, "user", [], [], blocks);
  else add(turns, "user", blocks.map(asUserText));
}

/** Instructions as a text in the user's turn. */
function asUserText(block: Block): Block {
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
  const { thinking_blocks: returned } = message as Block;
  // The provider refuses reasoning without its own signature.
  const reasoning = Array.isArray(returned)
    ? returned.filter(isJsonObject).filter(isReturnableReasoning)
    : [];
  const calls = toolCallsOf(message, path).map((call) => ({
    type: "tool_use",
    id: callId(call.id),
    name: call.name,
    input: argumentsOf(call, readJson),
  }));
  const content = message.content ?? "";
  if (typeof content === "string" && refusalOf(message) === "") {
    return blocksInOrder(reasoning, content, calls);
  }
  return [...reasoning.map(returnedReasoning), ...textBlocks(message, path), ...calls];
}

/** The interface refuses a cache mark inside a result, so a mark of a part is on the result. */
function resultBlock(message: RequestMessage, path: string): Block {
  const parts = partsOf(message, path).flatMap(blocksOf);
  const content = parts.map((block) => {
    const { cache_control: _, ...unmarked } = block;
    return unmarked;
  });
  return {
    type: "tool_result",
    tool_use_id: callId(answeredCallOf(message, path)),
    ...(content.length === 0 ? {} : { content }),
    ...cacheControlOf(parts.findLast(({ cache_control: mark }) => mark !== undefined)),
  };
}

/**
 * The interface accepts letters, digits, hyphens and underscores. Ids of other providers may have other characters;
 * each becomes its code, so different ids stay different.
 */
function callId(id: string): string {
  return id.replaceAll(
    /[^A-Za-z0-9_-]/gu,
    (character) => `_${character.codePointAt(0)?.toString(16)}_`,
  );
}

function textBlocks(message: RequestMessage, path: string): readonly Block[] {
  return partsOf(message, path).flatMap((part) => {
    if (part.kind !== "text") throw unsupported(part.path, part.own?.["type"]);
    return blocksOf(part);
  });
}

/** The blocks of a part; none for a blank text, which the interface refuses. */
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
      throw unsupported(part.path, part.own?.["type"]);
  }
}

/** The interface reads PDF and plain text: https://platform.claude.com/docs/en/build-with-claude/pdf-support */
function documentOf(part: ChatPart & { kind: "file" }): Block {
  const { source } = part;
  const title = part.name === undefined ? {} : { title: part.name };
  if (source.kind === "url" || source.mediaType === "application/pdf") {
    return { type: "document", source: sourceOf(source), ...title };
  }
  if (source.mediaType !== "text/plain") throw unsupported(part.path, "file");
  const data = Buffer.from(source.base64, "base64").toString();
  return { type: "document", source: { type: "text", media_type: "text/plain", data }, ...title };
}

function sourceOf(source: (ChatPart & { kind: "image" })["source"]): Block {
  return source.kind === "url"
    ? { type: "url", url: source.url }
    : { type: "base64", media_type: source.mediaType, data: source.base64 };
}

/** The interface refuses trailing blanks in an assistant message that it continues. */
function withoutTrailingBlanks(turns: readonly Turn[]): readonly Turn[] {
  const last = turns.at(-1);
  const block = last?.content.at(-1);
  if (last?.role !== "assistant" || typeof block?.["text"] !== "string") return turns;
  const content = [...last.content.slice(0, -1), { ...block, text: block["text"].trimEnd() }];
  return [...turns.slice(0, -1), { ...last, content }];
}

/** `claude-opus-4-8` is opus 4.08. Names of the oldest models have no family before the version. */
interface Claude {
  readonly family: string | undefined;
  readonly version: number;
}

/** The first version of each family that accepts instructions between the turns. */
const LATE_INSTRUCTIONS_SINCE: ReadonlyMap<string | undefined, number> = new Map([
  ["opus", 4.08],
  ["fable", 5],
  ["mythos", 5],
  ["sonnet", 5.05],
  ["haiku", 5.05],
]);
/** The Mythos preview has no version in its name and reasons like this version. */
const PREVIEW_VERSION = 4.06;

/**
 * The version in a model's name as a comparable number: 4.06 for `claude-opus-4-6` and `claude-sonnet-4.6`, 3.07 for
 * `claude-3-7-sonnet-20250219`. Undefined without a version.
 */
export function versionOf(model: string): number | undefined {
  const version = claudeOf(model)?.version;
  if (version !== undefined) return version;
  return /claude-mythos/i.test(model) ? PREVIEW_VERSION : undefined;
}

/**
 * True if the model accepts system messages between the others:
 * https://platform.claude.com/docs/en/build-with-claude/mid-conversation-system-messages. For other models they are
 * an error and become text.
 */
function supportsLateInstructions(model: string): boolean {
  const { family, version = 0 } = claudeOf(model) ?? {};
  return version >= (LATE_INSTRUCTIONS_SINCE.get(family) ?? Infinity);
}

function claudeOf(model: string): Claude | undefined {
  const name = /claude-(?:([a-z]+)-)?(\d{1,2})(?:[-.](\d{1,2}))?(?!\d)/i.exec(model);
  if (!name) return undefined;
  const [, family, major, minor = 0] = name;
  return { family: family?.toLowerCase(), version: Number(major) + Number(minor) / 100 };
}
