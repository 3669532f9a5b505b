import type { ChatRequest } from "../../contract/chat/chatRequest.ts";
import type { ChatRequestBody, RequestMessage } from "../../contract/chat/chatRequestBody.ts";
import { parseExactly } from "../../lib/exactJson.ts";
import {
  fieldsOf,
  isJsonObject,
  rawValue,
  type JsonFields,
  type JsonObjectText,
} from "../../lib/json.ts";
import { scanObject } from "../../lib/jsonObject.ts";
import { sha256 } from "../../lib/sha256.ts";
import { splice } from "../../lib/splice.ts";
import { parametersOf } from "../chat/toolSchemas.ts";
import type { NameRule } from "../provider.ts";
import type { Dialect } from "./dialect.ts";
import { BESIDE_RESULTS, inStrictOrder, movePictures } from "./messageOrder.ts";
import { nearestEffort } from "./modelFamilies.ts";

const SHORT_ID_CHARACTERS = 9;
/** The length of the hash at the end of a shortened or changed name. */
const NAME_HASH_CHARACTERS = 8;

export { BESIDE_RESULTS };

/** A checked chat with its text. */
export interface Chat {
  readonly request: ChatRequest;
  readonly object: JsonObjectText;
}

/** The chat in the dialect. It is the same object if nothing changes. */
export function adaptChat(chat: Chat, dialect: Dialect): Chat {
  if (keepsChats(dialect)) return chat;
  const { body } = chat.request;
  const changes: JsonFields = {
    ...messagesIn(body, dialect),
    ...toolsIn(chat, dialect),
    ...formatIn(chat, dialect),
    ...effortIn(body, dialect),
  };
  const names = Object.keys(changes);
  const { refusedFields, refusesStop } = dialect;
  const refused = refusedFields.filter((name) => Object.hasOwn(body, name));
  if (refusesStop && Object.hasOwn(body, "stop")) refused.push("stop");
  if (names.length === 0 && refused.length === 0) return chat;
  const remove = [...refused, ...names.filter((name) => changes[name] === undefined)];
  const set = Object.fromEntries(
    Object.entries(changes).filter(
      ([name, value]) => value !== undefined && !remove.includes(name),
    ),
  );
  return edited(chat, set, remove);
}

/** No chat is written anew for the dialect, so that no body has to be parsed. */
export function keepsChats(dialect: Dialect): boolean {
  const { toolNames, callIds, efforts } = dialect;
  const keepsMessages = !dialect.hasStrictOrder && dialect.takesPicturesInResults;
  const keepsFields =
    !dialect.fillsParameters && !dialect.refusesStop && dialect.refusedFields.length === 0;
  const changes = [toolNames, callIds, efforts];
  return keepsMessages && keepsFields && changes.every((change) => change === undefined);
}

function edited({ request, object }: Chat, set: JsonFields, remove: readonly string[]): Chat {
  const members = Object.entries({ ...request.body, ...set });
  const kept = Object.fromEntries(members.filter(([name]) => !remove.includes(name)));
  const texts: Record<string, string> = {};
  for (const [name, value] of Object.entries(set)) texts[name] = JSON.stringify(value);
  const text = splice(object, { set: texts, remove });
  return { request: { ...request, body: kept as ChatRequestBody }, object: scanObject(text) };
}

/** The name itself if the provider takes it. Otherwise another one that it takes, always the same for this name. */
export function providerToolName(name: string, rule: NameRule): string {
  const { charactersMax, foreign, start } = rule;
  const plain = name.replaceAll(foreign, "_");
  const started = start.test(plain) ? plain : `_${plain}`;
  if (started === name && name.length <= charactersMax) return name;
  const hash = sha256(name).toHex().slice(0, NAME_HASH_CHARACTERS);
  return `${started.slice(0, charactersMax - NAME_HASH_CHARACTERS - 1)}_${hash}`;
}

/** The changed names of tools, each with the client's own name. */
export function changedToolNames(
  request: Pick<ChatRequest, "body">,
  { toolNames: rule }: Dialect,
): ReadonlyMap<string, string> {
  const names = new Map<string, string>();
  if (rule === undefined) return names;
  const { tools }: JsonFields = request.body;
  for (const tool of Array.isArray(tools) ? (tools as unknown[]) : []) {
    const { name } = fieldsOf(fieldsOf(tool)["function"]);
    if (typeof name !== "string") continue;
    const sent = providerToolName(name, rule);
    if (sent !== name) names.set(sent, name);
  }
  return names;
}

/**
 * The most bytes that a dialect adds to the prompt. Schemas of tools and of the answer may get longer, because what
 * their variants share is written again. All other additions are smaller than what a hold counts for each message.
 */
export function addedPromptBytes({ tools, response_format: format }: JsonFields): number {
  const definitions = Array.isArray(tools) ? (tools as unknown[]) : [];
  const schemas = definitions.map((tool) => fieldsOf(fieldsOf(tool)["function"])["parameters"]);
  schemas.push(fieldsOf(fieldsOf(format)["json_schema"])["schema"]);
  let bytes = 0;
  for (const schema of schemas.filter(isJsonObject)) {
    const filled = parametersOf(schema);
    if (filled !== schema) bytes += Math.max(0, bytesOf(filled) - bytesOf(schema));
  }
  return bytes;
}

function bytesOf(value: JsonFields): number {
  return Buffer.byteLength(JSON.stringify(value));
}

function messagesIn(body: ChatRequestBody, dialect: Dialect): JsonFields {
  let messages: readonly RequestMessage[] = body.messages;
  if (!dialect.takesPicturesInResults) messages = movePictures(messages);
  if (dialect.hasStrictOrder) messages = inStrictOrder(messages);
  const { toolNames, callIds } = dialect;
  if (toolNames || callIds)
    messages = changedEach(messages, (message) => withCalls(message, dialect));
  return messages === body.messages ? {} : { messages };
}

/** The message with names and ids of calls in the form that the provider takes. */
function withCalls(message: RequestMessage, dialect: Dialect): RequestMessage {
  const { tool_calls: calls, tool_call_id: answered }: JsonFields = message;
  if (typeof answered === "string") {
    return changed(message, "tool_call_id", callIdIn(answered, dialect));
  }
  if (!Array.isArray(calls)) return message;
  const sent = changedEach(calls as unknown[], (call) =>
    isJsonObject(call)
      ? changed(renamed(call, dialect), "id", callIdIn(call["id"], dialect))
      : call,
  );
  return changed(message, "tool_calls", sent);
}

/** A short id of its own for each id that the provider refuses. */
function callIdIn(id: unknown, { callIds }: Dialect): unknown {
  if (callIds === undefined || typeof id !== "string" || callIds.test(id)) return id;
  return sha256(id).toHex().slice(0, SHORT_ID_CHARACTERS);
}

/** A definition, a call or a choice of a function with the name that the provider takes. */
function renamed<Holder extends JsonFields>(holder: Holder, { toolNames }: Dialect): Holder {
  const called = holder["function"];
  if (toolNames === undefined || !isJsonObject(called)) return holder;
  const { name } = called;
  if (typeof name !== "string") return holder;
  return changed(holder, "function", changed(called, "name", providerToolName(name, toolNames)));
}

function toolsIn({ request, object }: Chat, dialect: Dialect): JsonFields {
  const { tools, tool_choice: choice }: JsonFields = request.body;
  const sentChoice = isJsonObject(choice) ? chosen(choice, dialect) : choice;
  const isOtherChoice = sentChoice !== choice && { tool_choice: sentChoice };
  if (!Array.isArray(tools)) return { ...isOtherChoice };
  const adapt = (tool: unknown): unknown => (isJsonObject(tool) ? toolIn(tool, dialect) : tool);
  if (changedEach(tools as unknown[], adapt) === tools) return { ...isOtherChoice };
  // Numbers of the schemas keep their digits.
  const own = parseExactly(rawValue(object, "tools") ?? "[]") as unknown[];
  return { tools: own.map(adapt), ...isOtherChoice };
}

function toolIn(tool: JsonFields, dialect: Dialect): JsonFields {
  const named = renamed(tool, dialect);
  const { type, function: called } = named;
  if (!dialect.fillsParameters || type !== "function" || !isJsonObject(called)) return named;
  const { parameters } = called;
  const filled = parametersOf(isJsonObject(parameters) ? parameters : undefined);
  return changed(named, "function", changed(called, "parameters", filled));
}

/** The schema of an answer is filled in as those of tools are. */
function formatIn({ request, object }: Chat, { fillsParameters }: Dialect): JsonFields {
  const { response_format: format }: JsonFields = request.body;
  if (!fillsParameters || filledFormat(format) === format) return {};
  return { response_format: filledFormat(parseExactly(rawValue(object, "response_format") ?? "")) };
}

function filledFormat(format: unknown): unknown {
  const { json_schema: described } = fieldsOf(format);
  const { schema } = fieldsOf(described);
  if (!isJsonObject(format) || !isJsonObject(described) || !isJsonObject(schema)) return format;
  return changed(format, "json_schema", changed(described, "schema", parametersOf(schema)));
}

function chosen(choice: JsonFields, dialect: Dialect): JsonFields {
  const { allowed_tools: allowed } = choice;
  if (!isJsonObject(allowed) || !Array.isArray(allowed["tools"])) return renamed(choice, dialect);
  const tools = changedEach(allowed["tools"] as unknown[], (tool) =>
    isJsonObject(tool) ? renamed(tool, dialect) : tool,
  );
  return changed(choice, "allowed_tools", changed(allowed, "tools", tools));
}

/** The effort that the model takes. Undefined: the field is removed. */
function effortIn({ reasoning_effort: effort }: ChatRequestBody, { efforts }: Dialect): JsonFields {
  if (efforts === undefined || effort === undefined || effort === null) return {};
  const sent = nearestEffort(effort, efforts);
  return sent === effort ? {} : { reasoning_effort: sent };
}

/** The object with another value of a member. The same object if the value is the same. */
function changed<Holder extends object>(holder: Holder, name: string, value: unknown): Holder {
  return (holder as JsonFields)[name] === value ? holder : { ...holder, [name]: value };
}

/** The list with each item changed. The same list if no item changes. */
function changedEach<Item>(list: readonly Item[], change: (item: Item) => Item): readonly Item[] {
  const items = list.map(change);
  return items.every((item, index) => item === list[index]) ? list : items;
}
