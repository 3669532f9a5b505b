import { isJsonObject, type JsonFields } from "../../lib/json.ts";
import {
  ANSWER_BYTES_MAX,
  answerText,
  ExcessiveAnswerError,
  IsolatedFailureError,
} from "../../providers/provider.ts";
import { ObjectScanner } from "./objectScanner.ts";

/**
 * Servers differ in how they write the tool calls of a chat. This file reads all of their forms and writes one, before any
 * form of the answer sees them. Each call has an index of its own: 0, 1, 2 in the order in which the calls begin. Its first
 * part has id, type and name. Its later parts have only the index and more of the arguments. Parts that are in this form
 * already pass unchanged.
 */

/** What the calls of an answer get from its identity. */
export interface CallIdentity {
  /** Of the answer. Ids that the provider leaves out are made from it. */
  readonly id: string;
  /** The client's names of tools by those that the provider got instead. */
  readonly toolNames?: ReadonlyMap<string, string>;
}

/** More calls than any model makes in one answer. */
const CALLS_MAX = 1024;
/** The characters of the answer's id in an id that is made. OpenAI refuses ids over 40 characters. */
const ID_CHARACTERS = 24;

/** Where a kind of call has its name, and what its arguments are called. */
const ARGUMENTS = { function: "arguments", custom: "input" } as const;
type CallKind = keyof typeof ARGUMENTS;

/** One entry of `tool_calls`. A name or an id that is empty or no text is undefined. */
interface CallPart {
  readonly fields: JsonFields;
  readonly kind: CallKind;
  /** The object that has the name and the arguments. Some servers have no such object and put both into the entry. */
  readonly payload: JsonFields;
  readonly index: unknown;
  readonly id: string | undefined;
  readonly name: string | undefined;
  /** Arguments that are no text as JSON. */
  readonly text: string;
}

interface OpenCall {
  /** The provider's index of the call. */
  readonly at: unknown;
  /** The provider's id. */
  id: string | undefined;
  /** The provider's name. The call begins for the client when the name comes. */
  name: string | undefined;
  /** The index for the client, once the call has a name. */
  index: number;
  kind: CallKind;
  /** All arguments so far. */
  text: string;
  /** Other fields that came before the name. */
  kept: JsonFields | undefined;
  /** The earlier call, if this part may belong to it: only its id or index is new. */
  readonly before: OpenCall | undefined;
  readonly scanner: ObjectScanner;
  scanned: number;
}

class ChoiceCalls {
  readonly #identity: CallIdentity;
  readonly #choice: number;
  readonly #isWhole: boolean;
  readonly #calls: OpenCall[] = [];
  /** The last call of each index, and of each id. */
  readonly #byIndex = new Map<unknown, OpenCall>();
  readonly #byId = new Map<string, OpenCall>();
  /** The call of the last part. */
  #last: OpenCall | undefined;
  /** The ids that the client has. */
  readonly #shownIds = new Set<string>();
  #named = 0;
  #characters = 0;

  /** `isWhole`: the parts are those of a JSON answer, so each part with a name is a call. */
  constructor(identity: CallIdentity, choice: number, isWhole: boolean) {
    this.#identity = identity;
    this.#choice = choice;
    this.#isWhole = isWhole;
  }

  get hasBegun(): boolean {
    return this.#named > 0;
  }

  /** Returns what the client gets for these parts now. Throws ExcessiveAnswerError. */
  read(parts: readonly unknown[]): readonly JsonFields[] {
    return parts.flatMap((fields) => (isJsonObject(fields) ? this.#read(partOf(fields)) : []));
  }

  /**
   * The choice has ended. Throws IsolatedFailureError for a call whose name never came: without it the answer would look
   * whole. The model may have caused it, so the provider is not blamed.
   */
  end(): void {
    const isLost = this.#calls.some(
      ({ name, text, id, before }) =>
        name === undefined && (text.trim() !== "" || (id !== undefined && before === undefined)),
    );
    if (isLost) throw new IsolatedFailureError("a call has no name");
  }

  #read(part: CallPart): readonly JsonFields[] {
    if (this.#isWhole && isOfOtherKind(part)) return [part.fields];
    const call = part.name === undefined ? this.#continuedBy(part) : this.#namedBy(part);
    if (call === undefined) return [];
    this.#last = call;
    const text = isRepetition(call, part) ? "" : part.text;
    this.#count(text);
    call.text += text;
    if (call.name !== undefined) return [laterPart(call, part, text)];
    if (part.id !== undefined && call.id === undefined) {
      this.#count(part.id);
      call.id = part.id;
      this.#byId.set(part.id, call);
    }
    if (part.name === undefined) {
      call.kept = { ...call.kept, ...extrasOf(part) };
      return [];
    }
    call.name = part.name;
    call.kind = part.kind;
    call.index = this.#named++;
    return [this.#firstPart(call, part)];
  }

  /** The call of a part with a name: a new one, unless the name belongs to a call that has begun. */
  #namedBy(part: CallPart): OpenCall {
    const { index } = part;
    const isLastWaiting = this.#last?.name === undefined && this.#last?.at === undefined;
    const known = this.#isWhole
      ? this.#last
      : (this.#sameId(part) ??
        this.#byIndex.get(index) ??
        (index === undefined || isLastWaiting ? this.#last : undefined));
    return known && this.#takesName(known, part) ? known : this.#begin(part);
  }

  #takesName(call: OpenCall, { index, id, name, text }: CallPart): boolean {
    const hasOtherId = id !== undefined && id !== call.id;
    // The name comes after the id, or after some of the arguments. An id that changed until then says nothing.
    if (call.name === undefined) {
      const hasSameIndex = index !== undefined && index === call.at;
      return call.id === undefined || !hasOtherId || (hasSameIndex && !isComplete(call));
    }
    if (this.#isWhole || name !== call.name) return false;
    if (isRest(call, text)) return true;
    if (hasOtherId || (id === undefined && index === undefined)) return false;
    // A name that is repeated. Two calls may have one id.
    return text.trim() === "" || !isComplete(call) || (id !== undefined && text === call.text);
  }

  /** The call of a part without a name. Undefined if the part says nothing. */
  #continuedBy(part: CallPart): OpenCall | undefined {
    const { index, id, text } = part;
    const own = this.#sameId(part) ?? this.#byIndex.get(index);
    const isNew = own === undefined && index !== undefined && id !== undefined;
    const call = own ?? (isNew ? undefined : this.#last);
    if (!call) return id === undefined && text === "" ? undefined : this.#begin(part);
    const { name, before } = call;
    if (name === undefined) return before && text !== "" && !isComplete(before) ? before : call;
    const isForeign = own
      ? id !== undefined && call.id !== undefined && id !== call.id
      : id !== undefined || index !== undefined;
    // An id that differs may say nothing, or be that of the next call, whose name is still to come.
    const mayBeNext = text === "" || (text.trim() !== "" && text !== call.text && isComplete(call));
    return isForeign && mayBeNext ? this.#begin(part, call) : call;
  }

  /** The call with the id of the part, unless the part has the index of another one. */
  #sameId({ index, id, name }: CallPart): OpenCall | undefined {
    const call = id === undefined ? undefined : this.#byId.get(id);
    if (index === undefined || index === call?.at) return call;
    return name === undefined && !this.#byIndex.has(index) ? call : undefined;
  }

  #begin({ index, kind }: CallPart, before?: OpenCall): OpenCall {
    if (this.#calls.length === CALLS_MAX)
      throw new ExcessiveAnswerError("the answer has too many calls");
    const call: OpenCall = {
      at: index,
      id: undefined,
      name: undefined,
      index: -1,
      kind,
      text: "",
      kept: undefined,
      before,
      scanner: new ObjectScanner(),
      scanned: 0,
    };
    this.#calls.push(call);
    if (index !== undefined) this.#byIndex.set(index, call);
    return call;
  }

  #count(text: string): void {
    this.#characters += text.length;
    if (this.#characters > ANSWER_BYTES_MAX)
      throw new ExcessiveAnswerError("the calls of the answer are too long");
  }

  #firstPart(call: OpenCall, part: CallPart): JsonFields {
    const { index, kind, text } = call;
    const id = this.#shownIdOf(call);
    const name = this.#identity.toolNames?.get(call.name ?? "") ?? call.name;
    const { fields, payload } = part;
    const type = isText(fields["type"]) ? fields["type"] : kind;
    const given = { index: fields["index"], id: fields["id"], type: fields["type"] };
    // Only parts of a stream need an index.
    const hasIndex = !this.#isWhole || given.index !== undefined;
    const isCanonical =
      (!hasIndex || given.index === index) &&
      given.id === id &&
      given.type === type &&
      payload === fields[kind] &&
      payload["name"] === name &&
      payload[ARGUMENTS[kind]] === text;
    if (isCanonical && call.kept === undefined) return fields;
    return {
      ...(hasIndex && { index }),
      id,
      type,
      [kind]: { ...othersOf(part), name, [ARGUMENTS[kind]]: text },
      ...call.kept,
      ...extrasOf(part),
    };
  }

  /** The provider's id; one of the gateway's own if there is none, or if another call has it. */
  #shownIdOf({ id, index }: OpenCall): string {
    const answer = this.#identity.id.replaceAll(/[^\w-]/g, "").slice(-ID_CHARACTERS);
    const shown =
      id === undefined || this.#shownIds.has(id) ? `call_${answer}_${this.#choice}_${index}` : id;
    this.#shownIds.add(shown);
    return shown;
  }
}

/** The tool calls of a stream with several choices. */
export class StreamedCalls {
  readonly #identity: CallIdentity;
  readonly #choices = new Map<number, ChoiceCalls>();
  /** The choices with a call in the form before `tool_calls`. */
  readonly #legacyChoices = new Set<number>();

  constructor(identity: CallIdentity) {
    this.#identity = identity;
  }

  /** The delta of a choice with its calls in one form. Throws ExcessiveAnswerError. */
  read<Delta extends JsonFields>(delta: Delta, choice: number): Delta {
    if (isJsonObject(delta["function_call"])) this.#legacyChoices.add(choice);
    const parts = partsOf(delta);
    if (parts === undefined) return delta;
    const calls = this.#choices.get(choice) ?? new ChoiceCalls(this.#identity, choice, false);
    this.#choices.set(choice, calls);
    return withCalls(delta, parts, calls.read(parts));
  }

  /** Whether a choice has called a tool. */
  hasBegun(choice: number): boolean {
    return this.#legacyChoices.has(choice) || this.#choices.get(choice)?.hasBegun === true;
  }

  /** A choice has ended. Throws IsolatedFailureError for a call without a name. */
  end(choice: number): void {
    this.#choices.get(choice)?.end();
  }
}

/** The message of a JSON answer with its calls in one form. Throws IsolatedFailureError and ExcessiveAnswerError. */
export function withWholeCalls(
  message: JsonFields,
  identity: CallIdentity,
  choice: number,
): JsonFields {
  const parts = partsOf(message);
  if (parts === undefined) return message;
  const calls = new ChoiceCalls(identity, choice, true);
  const whole = withCalls(message, parts, calls.read(parts));
  calls.end();
  return whole;
}

/** Whether a message of a JSON answer calls a tool. */
export function callsTool(message: JsonFields): boolean {
  return partsOf(message) !== undefined || isJsonObject(message["function_call"]);
}

/** Undefined if there are none. */
function partsOf({ tool_calls: calls }: JsonFields): readonly unknown[] | undefined {
  return Array.isArray(calls) && calls.length > 0 ? (calls as readonly unknown[]) : undefined;
}

function withCalls<Message extends JsonFields>(
  message: Message,
  given: readonly unknown[],
  calls: readonly JsonFields[],
): Message {
  if (calls.length === given.length && calls.every((call, at) => call === given[at]))
    return message;
  const { tool_calls: _, ...others } = message;
  // The other fields are unchanged.
  return (calls.length > 0 ? { ...others, tool_calls: calls } : others) as unknown as Message;
}

function partOf(fields: JsonFields): CallPart {
  const kind = isJsonObject(fields["custom"]) ? "custom" : "function";
  const inner = fields[kind];
  const payload = isJsonObject(inner) ? inner : fields;
  const { index, id } = fields;
  return {
    fields,
    kind,
    payload,
    index: index ?? undefined,
    id: isText(id) ? id : undefined,
    name: isText(payload["name"]) ? payload["name"] : undefined,
    text: argumentsOf(payload[ARGUMENTS[kind]]),
  };
}

function argumentsOf(value: unknown): string {
  if (typeof value === "string") return value;
  return value === undefined || value === null ? "" : answerText(value);
}

/** A JSON entry with neither name nor arguments. A client may know what it is. */
function isOfOtherKind(part: CallPart): boolean {
  const { fields, payload, name, text } = part;
  const isCall = payload !== fields || name !== undefined || text !== "";
  return !isCall && Object.keys(extrasOf(part)).length > 0;
}

/** What continues a call that has begun. */
function laterPart({ index, kind }: OpenCall, part: CallPart, text: string): JsonFields {
  const { fields, payload } = part;
  const isCanonical =
    fields["index"] === index &&
    !("id" in fields || "type" in fields || "name" in payload) &&
    payload === fields[kind] &&
    payload[ARGUMENTS[kind]] === text;
  if (isCanonical) return fields;
  return { index, [kind]: { ...othersOf(part), [ARGUMENTS[kind]]: text }, ...extrasOf(part) };
}

/** The whole arguments again. */
function isRepetition(call: OpenCall, { text }: CallPart): boolean {
  return text !== "" && text === call.text && isComplete(call);
}

/** A text that continues arguments and cannot begin those of a function. */
function isRest(call: OpenCall, text: string): boolean {
  const begins = text.trimStart().startsWith("{");
  return (
    call.kind === "function" && call.text !== "" && text !== "" && !begins && !isComplete(call)
  );
}

/** Whether the arguments are a whole object. They are read only if a part leaves open what it belongs to. */
function isComplete(call: OpenCall): boolean {
  if (call.kind === "custom") return false;
  call.scanner.push(call.text.slice(call.scanned));
  call.scanned = call.text.length;
  return call.scanner.isComplete;
}

/** The fields of an entry that describe neither the call nor its place. */
function extrasOf({ fields, payload }: CallPart): JsonFields {
  const { index: _, id: __, type: ___, function: ____, custom: _____, ...extras } = fields;
  return payload === fields ? withoutCall(extras) : extras;
}

/** The fields beside name and arguments. */
function othersOf({ fields, payload }: CallPart): JsonFields {
  return payload === fields ? {} : withoutCall(payload);
}

function withoutCall(payload: JsonFields): JsonFields {
  const { name: _, arguments: __, input: ___, ...others } = payload;
  return others;
}

function isText(value: unknown): value is string {
  return typeof value === "string" && value !== "";
}
