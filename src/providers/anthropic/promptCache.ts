import type { ChatRequestBody, RequestMessage } from "../../contract/chat/chatRequestBody.ts";
import { fieldsOf, isGiven, isJsonObject, type JsonFields } from "../../lib/json.ts";

/** The interface refuses more marks: https://platform.claude.com/docs/en/build-with-claude/prompt-caching */
const MARKS_MAX = 4;

/** The native field that ends a cached prefix. Clients write it into parts, tools and messages. */
export function cacheControlOf(own: JsonFields | undefined): JsonFields {
  const control = own?.["cache_control"];
  return isJsonObject(control) ? { cache_control: control } : {};
}

/** The messages whose own mark is sent: the last ones for which the marks of parts and tools leave room. */
export function markedMessages(body: ChatRequestBody & JsonFields): ReadonlySet<RequestMessage> {
  const marked = body.messages.filter(hasMark);
  const room = Math.max(0, MARKS_MAX - innerMarks(body));
  return new Set(room === 0 ? [] : marked.slice(-room));
}

/**
 * The mark of the whole request, which moves with the conversation:
 * https://platform.claude.com/docs/en/build-with-claude/prompt-caching#automatic-caching. Undefined if the client has its
 * own marks, or if nothing shows that the conversation goes on: then the write would be paid for nothing.
 */
export function automaticMark(body: ChatRequestBody & JsonFields): JsonFields | undefined {
  const { tools, messages } = body;
  const goesOn =
    (Array.isArray(tools) && tools.length > 0) || messages.some(({ role }) => role === "assistant");
  const isMarked = innerMarks(body) > 0 || messages.some(hasMark);
  return goesOn && !isMarked ? { type: "ephemeral" } : undefined;
}

/** The blocks of a message with its own mark, on the last one that can carry it: reasoning cannot. */
export function withMark(
  blocks: readonly JsonFields[],
  message: RequestMessage,
): readonly JsonFields[] {
  const last = blocks.findLastIndex(({ type }) => !REASONING.has(type));
  const block = blocks[last];
  if (block === undefined || hasMark(block)) return blocks;
  return blocks.with(last, { ...block, ...cacheControlOf(message) });
}

const REASONING: ReadonlySet<unknown> = new Set(["thinking", "redacted_thinking"]);

/** Marks of the request itself, of tools and of parts. */
function innerMarks(body: ChatRequestBody & JsonFields): number {
  const { tools, messages } = body;
  const list: readonly unknown[] = Array.isArray(tools) ? tools : [];
  let count = isGiven(body["cache_control"]) ? 1 : 0;
  for (const tool of list) if (hasMark(tool) || hasMark(fieldsOf(tool)["function"])) count++;
  for (const { content } of messages) {
    if (Array.isArray(content)) for (const part of content) if (hasMark(part)) count++;
  }
  return count;
}

function hasMark(value: unknown): boolean {
  return isJsonObject(value) && isJsonObject(value["cache_control"]);
}
