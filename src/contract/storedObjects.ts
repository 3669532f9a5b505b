import { isJsonObject, type JsonFields } from "../lib/json.ts";
import { invalidRequest } from "./errors.ts";
import {
  COMPARISON_RESPONSE_FIELD,
  inOtherCase,
  isInOtherCase,
  mayFold,
  refuseCacheOptionsInOtherCase,
  refuseKeysInOtherCase,
} from "./keyCase.ts";
import { ownValue } from "./requestFields.ts";

/** Items and parts of an input whose whole text stands in the request. Any other may stand for more than its bytes. */
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

/** Items that a provider reads from the request, even where they bear the id of one that it keeps. */
const SELF_CONTAINED_ITEMS: ReadonlySet<unknown> = new Set([
  "message",
  "function_call",
  "function_call_output",
  "custom_tool_call",
  "custom_tool_call_output",
]);

/** Tools that the caller runs itself. What stands in their definitions names nothing at the provider. */
const CALLER_TOOLS: ReadonlySet<unknown> = new Set(["function", "custom"]);

/** What is passed over, by the type of what it stands in: a provider takes nothing from its store for it. */
const PASSED_OVER: ReadonlyMap<unknown, ReadonlySet<string>> = new Map([
  // Remarks on a text that was written earlier.
  ["output_text", new Set(["annotations", "logprobs"])],
  // What an earlier search found, with the ids of the files that it stood in.
  ["file_search_call", new Set(["results"])],
]);

/** Maps whose keys are the caller's own words, by the type of what they stand in: only what they hold could name anything. */
const FREE_MAPS: ReadonlyMap<unknown, string> = new Map([
  ["exec", "env"],
  ["mcp", "headers"],
]);

/** Keys under which items, parts and tools of the responses interface name what is stored. */
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
/** The same for the parts of a chat's messages. */
const CHAT_PART_ID_KEYS: ReadonlySet<string> = new Set(["file_id", "file_ids"]);

/** What else is read of an item of an input, of any object in one, and of a prompt or a conversation. */
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
const ITEM_REFERENCE = "item_reference";
/** What a model gave to a tool of the caller's own names nothing at the provider. */
const CALL_INPUT: ReadonlySet<string> = new Set(["input"]);
const OWNER_KEYS: ReadonlySet<string> = new Set(["id", "variables"]);

/** What a request takes from the provider's store. */
export interface StoredObjects {
  /** Ids as the client wrote them: output items, conversations, prompts, files, recordings, vector stores, containers. */
  readonly objectIds: readonly string[];
  /** The prompt may be larger than the request's own text: what is no text, and tools that the provider runs, bring in more. */
  readonly needsWholeContext: boolean;
}

/** The same of a responses request. */
export interface ResponsesObjects extends StoredObjects {
  /** Of the objects: the items that only their ids stand for. Others came back whole, and count by their own text. */
  readonly referencedIds: ReadonlySet<string>;
  /** Of reasoning that the request itself bears, but encrypted, oldest first: nothing is taken from a store, but only its maker can read it. */
  readonly encryptedReasoningIds: readonly string[];
}

/**
 * Finds the stored objects that a responses request names, apart from `previous_response_id`.
 * Throws ApiError 400 where an id is of a kind that cannot be checked: what cannot be checked is not sent.
 */
export function findStoredObjects(body: JsonFields): ResponsesObjects {
  const finding = new Finding();
  finding.readInput(ownValue(body, "input"));
  finding.readInput(ownValue(body, "instructions"));
  finding.readTools(ownValue(body, "tools"));
  finding.readOwner("prompt", ownValue(body, "prompt"));
  finding.readOwner("conversation", ownValue(body, "conversation"));
  return {
    objectIds: eachOnce(finding.ids),
    referencedIds: finding.referencedIds,
    encryptedReasoningIds: finding.encryptedReasoningIds,
    needsWholeContext: finding.needsWholeContext,
  };
}

/**
 * The response with whose use of the caches a responses request's own is compared; undefined where none is named. It
 * brings nothing into the prompt. Throws ApiError 400 for an id that is no string.
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
 * Finds the stored objects that the contents of a chat's messages and its tools name. Over the responses interface tools
 * of the provider's own pass as they are, with the stores and files that they name. Throws as `findStoredObjects` does.
 */
export function findChatObjects(contents: readonly unknown[], tools: unknown): StoredObjects {
  const finding = new Finding();
  finding.readChatParts(contents);
  finding.readTools(tools ?? undefined);
  return { objectIds: eachOnce(finding.ids), needsWholeContext: finding.needsWholeContext };
}

/** Told apart by their order, for in a set of the engine's all that are long may have one hash. */
function eachOnce(ids: readonly string[]): readonly string[] {
  const ordered = ids.toSorted();
  return ordered.filter((id, at) => id !== ordered[at - 1]);
}

/** Each is looked up by itself. */
const STORED_OBJECTS_MAX = 4096;

/** What was found so far. Clients choose how deep they nest, so what is left to look at stands on a stack of our own. */
class Finding {
  readonly ids: string[] = [];
  readonly referencedIds = new Set<string>();
  readonly encryptedReasoningIds: string[] = [];
  needsWholeContext = false;
  readonly #left: unknown[] = [];

  /** Reads an input: a text, or an array of items. A lone item is read as an array of one: a lax provider may do the same. */
  readInput(input: unknown): void {
    for (const item of Array.isArray(input) ? input : [input]) {
      if (isJsonObject(item)) this.#readItem(item);
      else if (Array.isArray(item)) this.#left.push(item);
    }
    this.#readLeft((object, isElement) => {
      const type = ownValue(object, "type");
      const isText = type === undefined ? !isElement : TEXT_TYPES.has(type);
      if (!isText) this.needsWholeContext = true;
      this.#readMembers(object, ID_KEYS, TYPE_KEY, PASSED_OVER.get(type));
    });
  }

  /** Reads the parts of a chat's messages, whichever form the provider has for one that stands for a file. */
  readChatParts(contents: readonly unknown[]): void {
    this.#left.push(contents);
    this.#readLeft((object) => {
      const passedOver = ownValue(object, "type") === "tool_use" ? CALL_INPUT : undefined;
      this.#readMembers(object, CHAT_PART_ID_KEYS, NO_KEYS, passedOver);
    });
  }

  /** Reads tool definitions. A tool that the provider runs brings in more than the request's text. */
  readTools(tools: unknown): void {
    if (tools === undefined) return;
    this.#left.push(tools);
    this.#readLeft((object) => {
      if (CALLER_TOOLS.has(ownValue(object, "type"))) {
        refuseKeysInOtherCase(object, TYPE_KEY);
        return;
      }
      this.needsWholeContext = true;
      this.#readMembers(object, ID_KEYS);
    });
  }

  /** Reads a field that is an id or an object with one: `prompt` (with variables that may be parts), `conversation`. */
  readOwner(key: string, value: unknown): void {
    if (value === undefined) return;
    this.needsWholeContext = true;
    if (!isJsonObject(value)) return this.#addId(key, value, "a string or an object with an id");
    refuseKeysInOtherCase(value, OWNER_KEYS, () => `${key}.`);
    this.#addId(`${key}.id`, ownValue(value, "id"));
    const variables = ownValue(value, "variables");
    // The names of variables are the caller's own: only what they hold can be a part.
    this.readInput(isJsonObject(variables) ? Object.values(variables) : variables);
  }

  /** Reads one item of an input. Without a type it is a message if it has content, and else a reference to a stored item. */
  #readItem(item: Record<string, unknown>): void {
    const type = ownValue(item, "type");
    const isMessage =
      type === undefined &&
      ownValue(item, "role") !== undefined &&
      ownValue(item, "content") !== undefined;
    const isSealed = type === "reasoning" && ownValue(item, "encrypted_content") !== undefined;
    const id = ownValue(item, "id");
    if (isSealed) {
      if (typeof id === "string") this.#keep(id, this.encryptedReasoningIds);
    } else if (!isMessage && !SELF_CONTAINED_ITEMS.has(type)) {
      this.needsWholeContext = true;
      if (id !== undefined) this.#addId("id", id);
      const isReference = type === undefined || type === ITEM_REFERENCE;
      if (isReference && typeof id === "string") this.referencedIds.add(id);
    }
    this.#readMembers(item, ID_KEYS, ITEM_KEYS, PASSED_OVER.get(type));
  }

  /** Takes the ids among an object's members, and puts the rest on the stack. `readKeys` are what else is read of it. */
  #readMembers(
    object: Record<string, unknown>,
    idKeys: ReadonlySet<string>,
    readKeys = TYPE_KEY,
    passedOver?: ReadonlySet<string>,
  ): void {
    const freeMap = FREE_MAPS.get(ownValue(object, "type"));
    for (const key in object) {
      const value = object[key];
      if (passedOver?.has(key) === true) continue;
      if (key === freeMap && isJsonObject(value)) {
        this.#left.push(Object.values(value));
        continue;
      }
      if (idKeys.has(key)) this.#readIds(key, value);
      else if (typeof value === "object") this.#left.push(value);
      if (!mayFold(key)) continue;
      const isTaken = isInOtherCase(key, idKeys) || isInOtherCase(key, readKeys);
      // An object is none of these: it may be a schema's property, and what is in it is looked at anyway.
      if (isTaken && !isJsonObject(value)) throw inOtherCase(key);
    }
  }

  /** Reads the value of a key that holds ids. An object is no id, but may hold some: a container, or a schema's property. */
  #readIds(key: string, value: unknown): void {
    if (value === null) return;
    for (const one of Array.isArray(value) ? value : [value]) {
      if (typeof one === "object") this.#left.push(one);
      else this.#addId(key, one);
    }
  }

  #addId(key: string, id: unknown, expected = "a string"): void {
    if (typeof id !== "string") throw invalidRequest(`${key} must be ${expected}`);
    this.#keep(id, this.ids);
  }

  #keep(id: string, among: string[]): void {
    among.push(id);
    if (this.ids.length + this.encryptedReasoningIds.length > STORED_OBJECTS_MAX) {
      throw invalidRequest(`body must name at most ${STORED_OBJECTS_MAX} stored objects`);
    }
  }

  /** Shows every object on the stack, and what is put there meanwhile. `isElement`: it stands in an array. */
  #readLeft(read: (object: Record<string, unknown>, isElement: boolean) => void): void {
    while (this.#left.length > 0) {
      const next = this.#left.pop();
      if (isJsonObject(next)) read(next, false);
      else if (Array.isArray(next)) {
        for (const element of next) {
          if (isJsonObject(element)) read(element, true);
          else if (Array.isArray(element)) this.#left.push(element);
        }
      }
    }
  }
}
