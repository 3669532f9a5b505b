import { exactReader, type ReadJson } from "../../../lib/exactJson.ts";
import { fieldsOf, isJsonObject, type JsonFields, isGiven } from "../../../lib/json.ts";
import { withRegisteredType } from "../../../lib/mediaType.ts";
import { UnsupportedRequestError, unsupported } from "../../../providers/provider.ts";
import { returnedFieldsOf, type ReturnedFields } from "./encryptedContent.ts";
import { chatToolName, INPUT_ARGUMENT } from "./responsesTools.ts";

/** Members of a part that both interfaces know: where a cached prefix of the prompt ends. */
const SHARED_PART_FIELDS = ["prompt_cache_breakpoint", "cache_control"];

/**
 * The messages of a chat for the `instructions` and the `input` of a responses request:
 * https://platform.openai.com/docs/api-reference/responses/create. Throws UnsupportedRequestError for content without a
 * counterpart.
 */
export function messagesOf({ instructions, input }: JsonFields): readonly JsonFields[] {
  const messages = new MessageList();
  if (isGiven(instructions)) {
    if (typeof instructions !== "string") throw unsupported("instructions");
    messages.add({ role: "system", content: instructions });
  }
  if (typeof input === "string") messages.add({ role: "user", content: input });
  else if (Array.isArray(input)) {
    for (const [index, item] of (input as unknown[]).entries()) {
      addItem(messages, item, `input[${index}]`);
    }
  } else throw new UnsupportedRequestError("input must be a string or an array of items");
  return messages.end();
}

function addItem(messages: MessageList, item: unknown, path: string): void {
  if (!isJsonObject(item)) throw unsupported(path);
  const { type, role, name, namespace } = item;
  switch (type ?? (isGiven(role) ? "message" : "item_reference")) {
    case "message":
      addMessage(messages, item, path);
      break;
    case "function_call":
      messages.addCall(callOf(item, path, name, item["arguments"] ?? "", namespace));
      break;
    case "custom_tool_call": {
      const input = JSON.stringify({ [INPUT_ARGUMENT]: item["input"] ?? "" });
      messages.addCall(callOf(item, path, name, input, namespace));
      break;
    }
    case "local_shell_call": {
      const { type: _, ...action } = fieldsOf(item["action"]);
      messages.addCall(callOf(item, path, "local_shell", JSON.stringify(action)));
      break;
    }
    case "tool_search_call":
      messages.addCall(
        callOf(item, path, "tool_search", JSON.stringify(fieldsOf(item["arguments"]))),
      );
      break;
    case "function_call_output":
    case "custom_tool_call_output":
    case "local_shell_call_output":
      messages.add(outputOf(item, path, textOf(item["output"] ?? "", `${path}.output`)));
      break;
    case "tool_search_output":
      messages.add(outputOf(item, path, foundTools(item["tools"])));
      break;
    case "reasoning":
      messages.addReasoning(item);
      break;
    // Tools are read apart. The result of a search is in the answer that follows it.
    case "additional_tools":
    case "web_search_call":
      break;
    case "item_reference":
      throw new UnsupportedRequestError(
        `${path} names a stored item, and this model does not keep responses: set store to false, and send the item itself`,
      );
    default:
      throw unsupported(path, type);
  }
}

function addMessage(messages: MessageList, { role, content }: JsonFields, path: string): void {
  const at = `${path}.content`;
  switch (role) {
    case "user":
      messages.add({ role, content: contentOf(content, at) });
      break;
    // Many compatible servers know no developer messages. OpenAI takes either for the other.
    case "developer":
    case "system":
      messages.add({ role: "system", content: textOf(content, at) });
      break;
    case "assistant":
      messages.addAnswer(answerTexts(content, at));
      break;
    default:
      throw unsupported(`${path}.role`);
  }
}

/** One text stays a string, because compatible servers may accept nothing else. */
function contentOf(content: unknown, path: string): string | readonly JsonFields[] {
  if (typeof content === "string") return content;
  if (!Array.isArray(content)) throw unsupported(path);
  const parts = (content as unknown[]).map((part, index) => partOf(part, `${path}[${index}]`));
  return parts.length <= 1 ? joinedTexts(parts) : parts;
}

/** Content that many compatible servers accept only as a string: instructions, and results of tools. */
function textOf(content: unknown, path: string): string | readonly JsonFields[] {
  const parts = contentOf(content, path);
  return typeof parts === "string" ? parts : joinedTexts(parts);
}

/** The texts as one string. The parts themselves if any of them is more than a text. */
function joinedTexts(parts: readonly JsonFields[]): string | readonly JsonFields[] {
  const isText = parts.every((part) => part["type"] === "text" && Object.keys(part).length === 2);
  return isText ? parts.map(({ text }) => String(text)).join("\n\n") : parts;
}

function partOf(part: unknown, path: string): JsonFields {
  if (!isJsonObject(part)) throw unsupported(path);
  const { type, text } = part;
  const shared = given(part, SHARED_PART_FIELDS);
  switch (type) {
    case "input_text":
    case "output_text":
    case "text":
      if (typeof text !== "string") throw unsupported(`${path}.text`);
      return { type: "text", text, ...shared };
    case "input_image":
      return { ...imagePart(part, path), ...shared };
    case "input_file":
      return { ...filePart(part, path), ...shared };
    case "input_audio":
      return { type, input_audio: part["input_audio"] };
    default:
      throw unsupported(path, type);
  }
}

/** A chat has no ids of stored images, and its highest detail is `high`. */
function imagePart({ image_url: url, detail }: JsonFields, path: string): JsonFields {
  if (typeof url !== "string") throw unsupported(`${path} without image_url`);
  const level = detail === "original" ? "high" : detail;
  return {
    type: "image_url",
    image_url: { url: withRegisteredType(url), ...(isGiven(level) && { detail: level }) },
  };
}

/** An address of a file stands where its data would. */
function filePart(part: JsonFields, path: string): JsonFields {
  const { file_data: data, file_url: url } = part;
  const file = {
    ...given(part, ["filename", "file_id", "detail"]),
    file_data: data ?? url ?? undefined,
  };
  if (file.file_data === undefined && !Object.hasOwn(file, "file_id")) {
    throw unsupported(`${path} without file_data`);
  }
  return { type: "file", file };
}

interface AnswerTexts {
  readonly text: string;
  readonly refusal: string;
}

function answerTexts(content: unknown, path: string): AnswerTexts {
  if (typeof content === "string") return { text: content, refusal: "" };
  if (!Array.isArray(content)) throw unsupported(path);
  let text = "";
  let refusal = "";
  for (const [index, part] of (content as unknown[]).entries()) {
    const { type, text: partText, refusal: refused } = fieldsOf(part);
    if (type === "refusal" && typeof refused === "string") refusal += refused;
    else if (typeof partText === "string") text += partText;
    else throw unsupported(`${path}[${index}]`, type);
  }
  return { text, refusal };
}

/** A call in the chat form. */
interface Call {
  readonly id: string;
  readonly type: "function";
  readonly function: { readonly name: string; readonly arguments: string };
}

function callOf(
  { call_id: callId, id }: JsonFields,
  path: string,
  name: unknown,
  argumentsText: unknown,
  namespace?: unknown,
): Call {
  const called = callId ?? id;
  const isCall = typeof name === "string" && typeof argumentsText === "string";
  if (typeof called !== "string" || !isCall) throw unsupported(path);
  return {
    id: called,
    type: "function",
    function: { name: chatToolName(name, namespace), arguments: argumentsText },
  };
}

/** The output of a local shell call names it by `id`. */
function outputOf(
  { call_id: callId, id }: JsonFields,
  path: string,
  content: string | readonly JsonFields[],
): JsonFields {
  const called = callId ?? id;
  if (typeof called !== "string") throw unsupported(`${path} without call_id`);
  return { role: "tool", tool_call_id: called, content };
}

/** The definitions become tools of the chat. The model learns here which ones the search found. */
function foundTools(tools: unknown): string {
  const list: readonly unknown[] = Array.isArray(tools) ? tools : [];
  const names = list.flatMap((tool): readonly unknown[] => {
    const { type, name, tools: inside } = fieldsOf(tool);
    if (type !== "namespace" || !Array.isArray(inside)) return [name];
    return inside.map((one) => chatToolName(String(fieldsOf(one)["name"]), name));
  });
  return JSON.stringify({ tools: names });
}

/** The messages so far. Consecutive items of the assistant become one message, as a chat answers with one. */
class MessageList {
  readonly #messages: JsonFields[] = [];
  readonly #readJson: ReadJson = exactReader();
  #answer: PendingAnswer | undefined;

  end(): readonly JsonFields[] {
    this.#endAnswer();
    return this.#messages;
  }

  /** Adds a message of another role, which ends the assistant's message before it. */
  add(message: JsonFields): void {
    this.#endAnswer();
    this.#messages.push(message);
  }

  /** Adds an assistant's text. After calls it belongs to their message, because results must follow the calls. */
  addAnswer(texts: AnswerTexts): void {
    if (this.#answer?.text !== undefined && this.#answer.calls.length === 0) this.#endAnswer();
    const answer = this.#open();
    answer.text = (answer.text ?? "") + texts.text;
    answer.refusal += texts.refusal;
  }

  addCall(call: Call): void {
    this.#open().calls.push(call);
  }

  /** Only the provider that encrypted a reasoning can read it, so the reasoning of others is left out. */
  addReasoning({ encrypted_content: encrypted, summary, content }: JsonFields): void {
    const isEncrypted = typeof encrypted === "string" && encrypted !== "";
    const returned = isEncrypted ? returnedFieldsOf(encrypted, this.#readJson) : {};
    if (returned === undefined) return;
    const answer = this.#open();
    answer.reasoning.push(...textsIn(summary), ...textsIn(content));
    answer.returned = { ...answer.returned, ...returned };
  }

  #open(): PendingAnswer {
    return (this.#answer ??= {
      text: undefined,
      refusal: "",
      reasoning: [],
      calls: [],
      returned: {},
    });
  }

  #endAnswer(): void {
    const answer = this.#answer;
    this.#answer = undefined;
    if (!answer || (answer.text === undefined && answer.calls.length === 0)) return;
    this.#messages.push(messageOf(answer));
  }
}

/** An assistant's message whose items are still being read. */
interface PendingAnswer {
  text: string | undefined;
  refusal: string;
  readonly reasoning: string[];
  readonly calls: Call[];
  returned: ReturnedFields;
}

function messageOf({ text, refusal, reasoning, calls, returned }: PendingAnswer): JsonFields {
  const { calls: extras = {}, ...fields } = returned;
  const hasOther = refusal !== "" || calls.length > 0;
  return {
    role: "assistant",
    content: (text ?? "") === "" && hasOther ? null : text,
    ...(refusal !== "" && { refusal }),
    ...(reasoning.length > 0 && { reasoning_content: reasoning.join("\n\n") }),
    ...fields,
    ...(calls.length > 0 && {
      tool_calls: calls.map((call) => {
        const extra = Object.hasOwn(extras, call.id) ? extras[call.id] : undefined;
        return extra ? { ...call, extra_content: extra } : call;
      }),
    }),
  };
}

function textsIn(parts: unknown): readonly string[] {
  const list: readonly unknown[] = Array.isArray(parts) ? parts : [];
  return list.map((part) => fieldsOf(part)["text"]).filter((text) => typeof text === "string");
}

/** The members with these names that are given. */
function given(object: JsonFields, names: readonly string[]): JsonFields {
  return Object.fromEntries(
    names.filter((name) => isGiven(object[name])).map((name) => [name, object[name]]),
  );
}
