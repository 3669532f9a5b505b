import { fieldsOf, isDeeperThan, isJsonObject, type JsonFields } from "../../../lib/json.ts";
import { ANSWER_COST_FACTOR, parseUntrusted } from "../../../lib/untrustedJson.ts";
import { DEPTH_MAX } from "../../../providers/provider.ts";
import { INPUT_ARGUMENT, type ToolOrigin } from "./responsesTools.ts";
import type { Emit, Item, ItemOptions, ItemStatus } from "./textItems.ts";

export const CALL_PREFIXES: Readonly<Record<ToolOrigin["type"], string>> = {
  function: "fc",
  custom: "ctc",
  local_shell: "lsh",
  tool_search: "tsc",
};

/**
 * A call of a tool of the client. Only a function has its arguments as the chat has them. The others are read from whole
 * arguments, at the end.
 */
export class CallItem implements Item {
  readonly index: number;
  readonly id: string;
  readonly #emit: Emit;
  readonly #origin: ToolOrigin;
  readonly callId: string;
  #arguments = "";

  constructor({
    index,
    id,
    emit,
    origin,
    callId,
  }: ItemOptions & { origin: ToolOrigin; callId: string }) {
    this.index = index;
    this.id = id;
    this.#emit = emit;
    this.#origin = origin;
    this.callId = callId;
    emit("response.output_item.added", { output_index: index, item: this.#item("in_progress") });
  }

  add(delta: string): void {
    this.#arguments += delta;
    if (this.#origin.type === "function") {
      this.#emit("response.function_call_arguments.delta", { ...this.#at(), delta });
    }
  }

  end(status: ItemStatus): JsonFields {
    const { type, name } = this.#origin;
    if (type === "function") {
      const fields = { ...this.#at(), name, arguments: this.#arguments };
      this.#emit("response.function_call_arguments.done", fields);
    }
    if (type === "custom") {
      const input = this.#input;
      this.#emit("response.custom_tool_call_input.delta", { ...this.#at(), delta: input });
      this.#emit("response.custom_tool_call_input.done", { ...this.#at(), input });
    }
    return this.#item(status);
  }

  #item(status: ItemStatus | "in_progress"): JsonFields {
    const { type, name, namespace } = this.#origin;
    const head = { id: this.id, type: `${type}_call`, status, call_id: this.callId };
    const named = { name, ...(namespace !== undefined && { namespace }) };
    switch (type) {
      case "function":
        return { ...head, ...named, arguments: this.#arguments };
      case "custom":
        return { ...head, type: "custom_tool_call", ...named, input: this.#input };
      case "local_shell":
        return { ...head, action: shellAction(this.#parsed) };
      case "tool_search":
        return { ...head, execution: "client", arguments: this.#parsed };
    }
  }

  /** The free text of a custom tool. A model may also write it without the argument's name. */
  get #input(): string {
    const input = this.#parsed[INPUT_ARGUMENT];
    return typeof input === "string" ? input : this.#arguments;
  }

  /** The arguments as an object; an empty one if they are not complete, or no object. */
  get #parsed(): JsonFields {
    try {
      const value = parseUntrusted(this.#arguments, ANSWER_COST_FACTOR);
      return isJsonObject(value) && !isDeeperThan(value, DEPTH_MAX) ? value : {};
    } catch {
      return {};
    }
  }

  #at(): JsonFields {
    return { item_id: this.id, output_index: this.index };
  }
}

function shellAction({ command, env, ...others }: JsonFields): JsonFields {
  const list = Array.isArray(command) ? command.filter((word) => typeof word === "string") : [];
  const { timeout_ms = null, working_directory = null, user = null } = others;
  return { type: "exec", command: list, env: fieldsOf(env), timeout_ms, working_directory, user };
}
