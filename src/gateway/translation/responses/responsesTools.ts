import { fieldsOf, isJsonObject, type JsonFields, isGiven } from "../../../lib/json.ts";
import { providerToolName } from "../../../providers/dialect/adaptChat.ts";
import { OPENAI_NAMES, UnsupportedRequestError, unsupported } from "../../../providers/provider.ts";

/** What a function of the chat stands for in the responses interface. */
export interface ToolOrigin {
  readonly type: "function" | "custom" | "local_shell" | "tool_search";
  readonly name: string;
  readonly namespace?: string | undefined;
}

/** The tools of a request as a chat has them. A chat has functions only. */
export interface TranslatedTools {
  /** Definitions in the chat form, each name once. */
  readonly definitions: readonly JsonFields[];
  /** By name in the chat. A plain function, which keeps its name, is not in it. */
  readonly origins: ReadonlyMap<string, ToolOrigin>;
}

/** The argument of the function that replaces a tool with free text as its input. */
export const INPUT_ARGUMENT = "input";

/** More tools than any model takes. The origins are kept until the answer ends. */
const TOOLS_MAX = 1024;
const TOOL_NAME_CHARACTERS_MAX = 128;

/** A search that the provider runs. The model may answer without it, and Codex always offers it. */
const OPTIONAL_TOOL = /^web_search/;

const LOCAL_SHELL = "local_shell";
const TOOL_SEARCH = "tool_search";

/** The fields of https://platform.openai.com/docs/guides/tools-local-shell. */
const LOCAL_SHELL_DEFINITION = {
  description: "Runs a command in a shell on the user's machine and returns its output.",
  parameters: {
    type: "object",
    properties: {
      command: {
        type: "array",
        items: { type: "string" },
        description: "The program and its arguments.",
      },
      working_directory: { type: "string", description: "The directory to run the command in." },
      timeout_ms: {
        type: "integer",
        description: "The longest time for the command, in milliseconds.",
      },
    },
    required: ["command"],
  },
};

/**
 * The tools of a checked responses request: `tools`, and those that items of the input add. A later tool replaces one of
 * the same name. Throws UnsupportedRequestError for tools that the provider runs, except web search, which is left out.
 */
export function translatedTools(body: JsonFields): TranslatedTools {
  const reader = new ToolReader();
  reader.readList(body["tools"], "tools");
  const { input } = body;
  for (const [index, item] of (Array.isArray(input) ? (input as unknown[]) : []).entries()) {
    const { type, tools } = fieldsOf(item);
    const addsTools = type === "additional_tools" || type === "tool_search_output";
    if (addsTools) reader.readList(tools, `input[${index}].tools`);
  }
  return { definitions: [...reader.definitions.values()], origins: reader.origins };
}

/** The name that a tool has in the chat, which has no namespaces. */
export function chatToolName(name: string, namespace: unknown): string {
  if (typeof namespace !== "string" || namespace === "") return name;
  // Found tools are told to the model by this name, so it is one that every provider takes.
  return providerToolName(`${namespace}__${name}`, OPENAI_NAMES);
}

class ToolReader {
  readonly definitions = new Map<string, JsonFields>();
  readonly origins = new Map<string, ToolOrigin>();

  readList(tools: unknown, path: string, namespace?: string): void {
    if (!isGiven(tools)) return;
    if (!Array.isArray(tools)) throw unsupported(path);
    for (const [index, tool] of (tools as unknown[]).entries()) {
      this.#read(tool, `${path}[${index}]`, namespace);
    }
  }

  #read(tool: unknown, path: string, namespace: string | undefined): void {
    if (!isJsonObject(tool)) throw unsupported(path);
    const { type, description, parameters, strict, format } = tool;
    if (typeof type === "string" && OPTIONAL_TOOL.test(type)) return;
    switch (type) {
      case "function":
        this.#add(
          tool,
          { type, name: nameOf(tool, path), namespace },
          { description, parameters, strict },
        );
        break;
      case "custom":
        this.#add(
          tool,
          { type, name: nameOf(tool, path), namespace },
          { description, ...inputOf(format) },
        );
        break;
      case "namespace":
        if (namespace !== undefined) throw unsupported(path, type);
        this.readList(tool["tools"], `${path}.tools`, nameOf(tool, path));
        break;
      case LOCAL_SHELL:
        this.#add(tool, { type, name: type }, LOCAL_SHELL_DEFINITION);
        break;
      case TOOL_SEARCH:
        if (tool["execution"] !== "client") throw unsupported(path, type);
        this.#add(tool, { type, name: type }, { description, parameters });
        break;
      default:
        throw unsupported(path, type);
    }
  }

  #add(tool: JsonFields, origin: ToolOrigin, definition: JsonFields): void {
    const name = chatToolName(origin.name, origin.namespace);
    const given = Object.entries(definition).filter(([, value]) => isGiven(value));
    const { cache_control: cache } = tool;
    this.definitions.set(name, {
      type: "function",
      function: { name, ...Object.fromEntries(given) },
      ...(isGiven(cache) && { cache_control: cache }),
    });
    if (origin.type === "function" && name === origin.name) this.origins.delete(name);
    else this.origins.set(name, origin);
    if (this.definitions.size > TOOLS_MAX) {
      throw new UnsupportedRequestError(`tools must have at most ${TOOLS_MAX} items`);
    }
  }
}

function nameOf({ name }: JsonFields, path: string): string {
  const isName = typeof name === "string" && name !== "" && name.length <= TOOL_NAME_CHARACTERS_MAX;
  if (!isName) throw unsupported(`${path}.name`);
  return name;
}

/** The model learns the grammar as a text. Nothing enforces it. */
function inputOf(format: unknown): JsonFields {
  const { type, syntax, definition } = fieldsOf(format);
  const grammar =
    type === "grammar"
      ? `\nIt must match this grammar (${String(syntax)}):\n${String(definition)}`
      : "";
  const description = `The whole input of the tool, as plain text.${grammar}`;
  return {
    parameters: {
      type: "object",
      properties: { [INPUT_ARGUMENT]: { type: "string", description } },
      required: [INPUT_ARGUMENT],
      additionalProperties: false,
    },
  };
}

/** The choice in the chat form. Throws UnsupportedRequestError for a tool that the provider runs. */
export function translatedToolChoice(choice: unknown): unknown {
  if (!isGiven(choice) || typeof choice === "string") return choice;
  const { type, mode, tools } = fieldsOf(choice);
  if (type !== "allowed_tools") return namedTool(choice);
  if (!Array.isArray(tools)) throw unsupported("tool_choice");
  const offered = (tools as unknown[]).filter(
    (tool) => !OPTIONAL_TOOL.test(String(fieldsOf(tool)["type"])),
  );
  return { type, allowed_tools: { mode, tools: offered.map(namedTool) } };
}

function namedTool(tool: unknown): JsonFields {
  const { type, name, namespace } = fieldsOf(tool);
  const isNamed = type === "function" || type === "custom";
  if (!isNamed && type !== LOCAL_SHELL) throw unsupported("tool_choice");
  const called = isNamed ? name : type;
  if (typeof called !== "string") throw unsupported("tool_choice");
  return { type: "function", function: { name: chatToolName(called, namespace) } };
}
