import { anthropicFault } from "./anthropicFault.ts";
import { object, objects, partsOf, unknownKeys, type Json, word } from "./strictServer.ts";

/** The members of each type of block: https://platform.claude.com/docs/en/api/messages/create */
const members: Readonly<Record<string, readonly string[]>> = {
  text: ["type", "text", "cache_control", "citations"],
  image: ["type", "source", "cache_control"],
  document: ["type", "source", "cache_control", "title", "context", "citations"],
  search_result: ["type", "source", "title", "content", "cache_control", "citations"],
  tool_use: ["type", "id", "name", "input", "cache_control", "caller"],
  tool_result: ["type", "tool_use_id", "content", "is_error", "cache_control"],
  thinking: ["type", "thinking", "signature"],
  redacted_thinking: ["type", "data"],
  tool_reference: ["type", "tool_name", "cache_control"],
};
const typesOf: Readonly<Record<string, readonly string[]>> = {
  user: ["text", "image", "document", "search_result", "tool_result"],
  assistant: ["text", "tool_use", "thinking", "redacted_thinking"],
  system: ["text"],
};
const pictureTypes = ["image/jpeg", "image/png", "image/gif", "image/webp"];

/** The order of the turns, and the blocks in them. */
export function checkAnthropicMessages(body: Json, takesLateInstructions: boolean): void {
  const messages = objects(body["messages"]);
  if (messages.length === 0) throw anthropicFault("messages: at least one message is required");
  for (const block of partsOf(body["system"] ?? [])) {
    if (body["system"] !== "" && block["text"] === "") {
      throw anthropicFault("system: text content blocks must be non-empty");
    }
  }
  let open: readonly string[] = [];
  let openAt = 0;
  for (const [at, message] of messages.entries()) {
    const role = word(message["role"]);
    const [unknown] = unknownKeys(message, ["role", "content"]);
    if (unknown !== undefined)
      throw anthropicFault(`messages.${at}.${unknown}: Extra inputs are not permitted`);
    if (role === "system" && !takesLateInstructions) {
      throw anthropicFault(
        `messages: Unexpected role "system". The Messages API accepts a top-level \`system\` parameter, not "system" as an input message role.`,
      );
    }
    if (!(role in typesOf)) {
      throw anthropicFault(
        `messages: Unexpected role "${role}". Allowed roles are "user" or "assistant".`,
      );
    }
    if (role === "system" && (at === 0 || messages[at - 1]?.["role"] === "assistant")) {
      throw anthropicFault(`messages.${at}: system messages must follow a user message`);
    }
    if (at === 0 && role !== "user")
      throw anthropicFault(`messages: first message must use the "user" role`);
    const blocks = partsOf(message["content"]);
    const isLast = at === messages.length - 1;
    if (blocks.length === 0 && !(isLast && role === "assistant")) {
      throw anthropicFault(
        `messages.${at}: all messages must have non-empty content except for the optional final assistant message`,
      );
    }
    for (const [index, block] of blocks.entries()) {
      checkBlock(block, role, `messages.${at}.content.${index}`);
    }
    if (role === "user") {
      checkResults(blocks, open, { at, openAt });
      open = [];
    }
    if (role === "assistant") {
      if (open.length > 0) throw missingResults(open, openAt);
      open = blocks.filter(({ type }) => type === "tool_use").map(({ id }) => word(id));
      openAt = at;
    }
  }
  if (open.length > 0) throw missingResults(open, openAt);
  if (messages.at(-1)?.["role"] === "assistant") {
    throw anthropicFault(
      "This model does not support assistant message prefill. The conversation must end with a user message.",
    );
  }
}

function missingResults(open: readonly string[], at: number): Error {
  return anthropicFault(
    `messages.${at}: \`tool_use\` ids were found without \`tool_result\` blocks immediately after: ${open.join(", ")}. Each \`tool_use\` block must have a corresponding \`tool_result\` block in the next message.`,
  );
}

/** All results of the calls before, and before everything else. */
function checkResults(
  blocks: readonly Json[],
  open: readonly string[],
  { at, openAt }: { readonly at: number; readonly openAt: number },
): void {
  const given = blocks.filter(({ type }) => type === "tool_result");
  for (const [index, block] of given.entries()) {
    const id = word(block["tool_use_id"]);
    if (!open.includes(id)) {
      throw anthropicFault(
        `messages.${at}.content.${index}: unexpected \`tool_use_id\` found in \`tool_result\` blocks: ${id}. Each \`tool_result\` block must have a corresponding \`tool_use\` block in the previous message.`,
      );
    }
  }
  const ids = given.map(({ tool_use_id: id }) => word(id));
  if (new Set(ids).size < ids.length) {
    throw anthropicFault(
      `messages.${at}.content: each tool_use must have a single result. Found multiple \`tool_result\` blocks with id: ${ids.join(", ")}`,
    );
  }
  const areFirst = blocks.slice(0, given.length).every(({ type }) => type === "tool_result");
  const missing = areFirst ? open.filter((id) => !ids.includes(id)) : open;
  if (missing.length > 0) throw missingResults(missing, openAt);
}

function checkBlock(block: Json, role: string, path: string): void {
  const type = word(block["type"]);
  const known = members[type];
  // Blocks of the tools that Anthropic runs itself are no subject here.
  if (known === undefined && role === "assistant") return;
  if (known === undefined || !typesOf[role]?.includes(type)) {
    const tags = (typesOf[role] ?? []).map((one) => `'${one}'`).join(", ");
    throw anthropicFault(
      `${path}: Input tag '${type}' found using 'type' does not match any of the expected tags: ${tags}`,
    );
  }
  const [unknown] = unknownKeys(block, known);
  if (unknown !== undefined)
    throw anthropicFault(`${path}.${type}.${unknown}: Extra inputs are not permitted`);
  if (type === "text") checkText(block);
  if (type === "tool_use") {
    if (!/^[a-zA-Z0-9_-]+$/.test(word(block["id"]))) {
      throw anthropicFault(`${path}.tool_use.id: String should match pattern '^[a-zA-Z0-9_-]+$'`);
    }
    if (
      typeof block["input"] !== "object" ||
      block["input"] === null ||
      Array.isArray(block["input"])
    ) {
      throw anthropicFault(`${path}.tool_use.input: Input should be a valid dictionary`);
    }
    if (!/^[a-zA-Z0-9_-]{1,128}$/.test(word(block["name"]))) {
      throw anthropicFault(
        `${path}.tool_use.name: String should match pattern '^[a-zA-Z0-9_-]{1,128}$'`,
      );
    }
  }
  if (type === "tool_result") {
    for (const [at, part] of partsOf(block["content"]).entries()) {
      const inside = `${path}.tool_result.content.${at}`;
      if ("cache_control" in part) {
        throw anthropicFault(
          `${inside}.cache_control: cache_control may not be specified within \`tool_result.content\`. Instead, place it directly on \`tool_result\``,
        );
      }
      if (part["type"] === "image") checkPicture(part, inside);
      else if (part["type"] === "text") checkText(part, block["content"] !== "");
    }
  }
  if (type === "image") checkPicture(block, path);
  if (
    type === "thinking" &&
    (typeof block["signature"] !== "string" || block["signature"] === "")
  ) {
    throw anthropicFault(`${path}: Invalid \`signature\` in \`thinking\` block`);
  }
}

function checkText({ text, cache_control: mark }: Json, isPart = true): void {
  if (!isPart) return;
  if (text === "") {
    throw anthropicFault(
      mark === undefined
        ? "messages: text content blocks must be non-empty"
        : "cache_control cannot be set for empty text blocks",
    );
  }
  if (typeof text === "string" && text.trim() === "") {
    throw anthropicFault("messages: text content blocks must contain non-whitespace text");
  }
}

function checkPicture(block: Json, path: string): void {
  const source = object(block["source"]);
  if (source["type"] === "base64" && !pictureTypes.includes(word(source["media_type"]))) {
    throw anthropicFault(
      `${path}.image.source.base64.media_type: Input should be 'image/jpeg', 'image/png', 'image/gif' or 'image/webp'`,
    );
  }
}
