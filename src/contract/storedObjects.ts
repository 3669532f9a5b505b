import { isJsonObject, type JsonFields } from "../lib/json.ts";
import { wholeString } from "../lib/outline.ts";
import { invalidRequest } from "./errors.ts";
import {
  COMPARISON_RESPONSE_FIELD,
  isInOtherCase,
  mayFold,
  refuseCacheOptionsInOtherCase,
  refuseKeysInOtherCase,
  unsupportedKey,
} from "./keyCase.ts";
import { ownValue } from "./requestFields.ts";

export interface StoredObjects {
  /** Ids as the client wrote them, each once: output items, conversations, prompts, files, recordings, stores, containers. */
  readonly objectIds: readonly string[];
  /** The prompt may be larger than the request's own text: it has parts that are not text, or tools that the provider runs. */
  readonly needsWholeContext: boolean;
}

/** The stored objects that a responses request names. */
export interface ResponsesObjects extends StoredObjects {
  /** The ids that are references to output items. Other items are in the request with their whole text. */
  readonly referencedIds: ReadonlySet<string>;
  /**
   * Ids of encrypted reasoning in the input, oldest first. The reasoning is in the request, but only its maker can
   * decrypt it.
   */
  readonly encryptedReasoningIds: readonly string[];
}

/** Each id is one database read. */
const STORED_OBJECTS_MAX = 4096;

const ITEM_REFERENCE = "item_reference";

/** Types of items and parts whose whole text is in the request. Other types may bring in more tokens than their bytes. */
const TEXT_TYPES: ReadonlySet<unknown> = new Set([
  "message",
  "input_text",
  "output_text",
  "text",
  "refusal",
  "reasoning",
  "summary_text",
  "reasoning_text",
  "function_call",
  "function_call_output",
  "custom_tool_call",
  "custom_tool_call_output",
]);

/** Types of items that a provider reads from the request, even if their id is the id of a stored item. */
const SELF_CONTAINED_ITEMS: ReadonlySet<unknown> = new Set([
  "message",
  "function_call",
  "function_call_output",
  "custom_tool_call",
  "custom_tool_call_output",
  // Codex gives this item an id of its own.
  "additional_tools",
]);

/** The id that a translated answer gives to reasoning: that of its request with a number. Providers use no such ids. */
const TRANSLATED_REASONING_ID = /^rs_[0-9a-z]{20}_\d{1,9}$/;

/**
 * Whether an item of an input is reasoning of a translated answer, or a reference to such reasoning. No provider has
 * stored it, so it is sent to none.
 */
export function isTranslatedReasoning({ type, id }: JsonFields): boolean {
  const isOfReasoning = type === "reasoning" || type === ITEM_REFERENCE;
  return isOfReasoning && typeof id === "string" && TRANSLATED_REASONING_ID.test(id);
}

/** Types of tools that the caller runs. Their definitions name no stored objects. */
const CALLER_TOOLS: ReadonlySet<unknown> = new Set(["function", "custom"]);

/** Members that hold ids of stored objects that a provider does not read again, by the type of their object. */
const IGNORED_MEMBERS: ReadonlyMap<unknown, ReadonlySet<string>> = new Map([
  // Citations in a text of an earlier answer.
  ["output_text", new Set(["annotations", "logprobs"])],
  // Results of an earlier search, with the ids of their files.
  ["file_search_call", new Set(["results"])],
]);

/** Maps whose keys the caller chooses, by the type of their object. Only their values can name stored objects. */
const CALLER_MAPS: ReadonlyMap<unknown, string> = new Map([
  ["exec", "env"],
  ["mcp", "headers"],
]);

/** Arguments of a tool of the caller, in a chat part of type `tool_use`. They name nothing at the provider. */
const TOOL_ARGUMENTS: ReadonlySet<string> = new Set(["input"]);

/** Keys of items, parts and tools of the responses interface that name stored objects. */
const ID_KEYS: ReadonlySet<string> = new Set([
  "file_id",
  "file_ids",
  "vector_store_ids",
  "container",
  "container_id",
  "skill_id",
  "approval_request_id",
  "tunnel_id",
]);
/** Keys of the parts of a chat's messages that name stored objects. */
const CHAT_PART_ID_KEYS: ReadonlySet<string> = new Set(["file_id", "file_ids"]);

/** Other keys that are read of an item of an input, of an object inside one, and of a prompt or a conversation. */
const ITEM_KEYS: ReadonlySet<string> = new Set([
  "type",
  "id",
  "role",
  "content",
  "encrypted_content",
  "tools",
]);
const TYPE_KEY: ReadonlySet<string> = new Set(["type"]);
const NO_KEYS: ReadonlySet<string> = new Set();
const OWNER_KEYS: ReadonlySet<string> = new Set(["id", "variables"]);

/**
 * Finds the stored objects that a responses request names, except `previous_response_id`.
 * Throws ApiError 400 for an id that is not a string: what cannot be checked is not sent.
 */
export function findStoredObjects(body: JsonFields): ResponsesObjects {
  const finder = new ObjectFinder();
  finder.readInput(ownValue(body, "input"));
  finder.readInput(ownValue(body, "instructions"));
  finder.readTools(ownValue(body, "tools"));
  finder.readOwner("prompt", ownValue(body, "prompt"));
  finder.readOwner("conversation", ownValue(body, "conversation"));
  return {
    objectIds: withoutDuplicates(finder.ids),
    referencedIds: finder.referencedIds,
    encryptedReasoningIds: finder.encryptedReasoningIds,
    needsWholeContext: finder.needsWholeContext,
  };
}

/**
 * The response that a responses request names for a comparison of cache use, or undefined. It adds nothing to the
 * prompt. Throws ApiError 400 for an id that is not a string.
 */
export function comparisonResponseIdOf(body: JsonFields): string | undefined {
  const options = ownValue(body, "prompt_cache_options");
  if (!isJsonObject(options)) return undefined;
  refuseCacheOptionsInOtherCase(options);
  const id = ownValue(options, COMPARISON_RESPONSE_FIELD);
  if (id === undefined || typeof id === "string") return id;
  throw invalidRequest(`prompt_cache_options.${COMPARISON_RESPONSE_FIELD} must be a string`);
}

/**
 * Finds the stored objects that a chat names in the contents of its messages and in its tools. Tools that a provider
 * runs are forwarded to routes with `api = "responses"`, with the ids in them. Throws like `findStoredObjects`.
 */
export function findChatObjects(contents: readonly unknown[], tools: unknown): StoredObjects {
  const finder = new ObjectFinder();
  finder.readChatParts(contents);
  finder.readTools(tools ?? undefined);
  return {
    objectIds: withoutDuplicates(finder.ids),
    needsWholeContext: finder.needsWholeContext,
  };
}

/** Sorts instead of using a Set: long strings can be made to collide in the engine's hash tables. */
function withoutDuplicates(ids: readonly string[]): readonly string[] {
  if (ids.length < 2) return ids;
  const sorted = ids.toSorted();
  return sorted.filter((id, at) => id !== sorted[at - 1]);
}

/** Collects the ids. Clients choose the nesting depth, so values that are still to be read are on an explicit stack. */
class ObjectFinder {
  readonly ids: string[] = [];
  readonly referencedIds = new Set<string>();
  readonly encryptedReasoningIds: string[] = [];
  needsWholeContext = false;
  readonly #unread: unknown[] = [];

  /** Reads a text or an array of items. A single item counts as an array of one: a provider may accept it so. */
  readInput(input: unknown): void {
    for (const item of Array.isArray(input) ? input : [input]) {
      if (isJsonObject(item)) this.#readItem(item);
      else if (Array.isArray(item)) this.#unread.push(item);
    }
    this.#readUnread((object, isElement) => {
      const type = ownValue(object, "type");
      const isText = type === undefined ? !isElement : TEXT_TYPES.has(type);
      if (!isText) this.needsWholeContext = true;
      this.#readMembers(object, ID_KEYS, TYPE_KEY, IGNORED_MEMBERS.get(type));
    });
  }

  /** Reads the parts of a chat's messages in any provider's form. */
  readChatParts(contents: readonly unknown[]): void {
    this.#unread.push(contents);
    this.#readUnread((object) => {
      const ignored = ownValue(object, "type") === "tool_use" ? TOOL_ARGUMENTS : undefined;
      this.#readMembers(object, CHAT_PART_ID_KEYS, NO_KEYS, ignored);
    });
  }

  readTools(tools: unknown): void {
    if (tools === undefined) return;
    this.#unread.push(tools);
    this.#readUnread((object) => {
      if (CALLER_TOOLS.has(ownValue(object, "type"))) {
        refuseKeysInOtherCase(object, TYPE_KEY);
        return;
      }
      this.needsWholeContext = true;
      this.#readMembers(object, ID_KEYS);
    });
  }

  /** Reads `prompt` or `conversation`: an id, or an object with an id. The variables of a prompt may be parts. */
  readOwner(key: string, value: unknown): void {
    if (value === undefined) return;
    this.needsWholeContext = true;
    if (!isJsonObject(value)) return this.#addId(key, value, "a string or an object with an id");
    refuseKeysInOtherCase(value, OWNER_KEYS, () => `${key}.`);
    this.#addId(`${key}.id`, ownValue(value, "id"));
    const variables = ownValue(value, "variables");
    // The caller chooses the names of variables, so only their values are read.
    this.readInput(isJsonObject(variables) ? Object.values(variables) : variables);
  }

  /** Reads one item of an input. An item without a type is a message if it has a role and content, else a reference. */
  #readItem(item: Record<string, unknown>): void {
    if (isTranslatedReasoning(item)) return;
    const type = ownValue(item, "type");
    const isMessage =
      type === undefined &&
      ownValue(item, "role") !== undefined &&
      ownValue(item, "content") !== undefined;
    const isEncrypted = type === "reasoning" && ownValue(item, "encrypted_content") !== undefined;
    const id = ownValue(item, "id");
    if (isEncrypted) {
      if (typeof id === "string") this.#push(id, this.encryptedReasoningIds);
    } else if (!isMessage && !SELF_CONTAINED_ITEMS.has(type)) {
      this.needsWholeContext = true;
      if (id !== undefined) this.#addId("id", id);
      const isReference = type === undefined || type === ITEM_REFERENCE;
      if (isReference && typeof id === "string") this.referencedIds.add(wholeString(id));
    }
    this.#readMembers(item, ID_KEYS, ITEM_KEYS, IGNORED_MEMBERS.get(type));
  }

  /** Takes the ids among an object's members and puts the other members on the stack. `readKeys`: other keys that are read. */
  #readMembers(
    object: Record<string, unknown>,
    idKeys: ReadonlySet<string>,
    readKeys = TYPE_KEY,
    ignored?: ReadonlySet<string>,
  ): void {
    const callerMap = CALLER_MAPS.get(ownValue(object, "type"));
    for (const key in object) {
      if (ignored?.has(key) === true) continue;
      const value = object[key];
      if (key === callerMap && isJsonObject(value)) {
        this.#unread.push(Object.values(value));
        continue;
      }
      if (idKeys.has(key)) this.#readIds(key, value);
      else if (typeof value === "object") this.#unread.push(value);
      if (!mayFold(key)) continue;
      const isRead = isInOtherCase(key, idKeys) || isInOtherCase(key, readKeys);
      // An object may be a property of a schema. It holds no id itself, and its members are read anyway.
      if (isRead && !isJsonObject(value)) throw unsupportedKey(key);
    }
  }

  /** Reads the value of a key that holds ids. An object is not an id, but may contain some: a container, or a schema's property. */
  #readIds(key: string, value: unknown): void {
    if (value === null) return;
    for (const id of Array.isArray(value) ? value : [value]) {
      if (typeof id === "object") this.#unread.push(id);
      else this.#addId(key, id);
    }
  }

  #addId(key: string, id: unknown, expected = "a string"): void {
    if (typeof id !== "string") throw invalidRequest(`${key} must be ${expected}`);
    this.#push(id, this.ids);
  }

  #push(id: string, list: string[]): void {
    list.push(wholeString(id));
    if (this.ids.length + this.encryptedReasoningIds.length > STORED_OBJECTS_MAX) {
      throw invalidRequest(`body must name at most ${STORED_OBJECTS_MAX} stored objects`);
    }
  }

  /** Passes every object on the stack to `read`, which may push more. `isElement`: the object is an array's element. */
  #readUnread(read: (object: Record<string, unknown>, isElement: boolean) => void): void {
    while (this.#unread.length > 0) {
      const next = this.#unread.pop();
      if (isJsonObject(next)) read(next, false);
      else if (Array.isArray(next)) {
        for (const element of next) {
          if (isJsonObject(element)) read(element, true);
          else if (Array.isArray(element)) this.#unread.push(element);
        }
      }
    }
  }
}
