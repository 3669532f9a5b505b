import { isJsonObject } from "../lib/json.ts";
import { findStoredObjects } from "./storedObjects.ts";
import { measureText } from "./textSize.ts";

const TEXT_PARTS: ReadonlySet<string> = new Set(["text", "refusal"]);

/** What a prompt holds, for estimates and for the check of who owns what it names. */
export interface PromptMeasure {
  readonly messageCount: number;
  /** UTF-8 bytes of the texts that a model reads: contents, tool calls, tool and format definitions. */
  readonly promptTextBytes: number;
  /** Parts that are not text (images, files, sound): their tokens cannot be told from their bytes. */
  readonly nonTextPartCount: number;
  /** The prompt may be larger than its texts: parts that are not text, and tools that the provider runs, bring in more. */
  readonly needsWholeContext: boolean;
  /** Ids of files, recordings and other objects that the prompt names at the provider, as the client wrote them. */
  readonly storedObjectIds: readonly string[];
}

/** Measures a body that was checked. Throws ApiError 400 where a tool names an object by what is no id. */
export function measurePrompt(body: Prompt): PromptMeasure {
  const storedObjectIds: string[] = [];
  const besides = [body.system, body.tools, body.functions, body.response_format];
  let promptTextBytes = measureText(besides).textBytes;
  let nonTextPartCount = 0;
  for (const message of body.messages) {
    const { content } = message;
    if (typeof content === "string") promptTextBytes += Buffer.byteLength(content);
    else {
      for (const part of content ?? []) {
        const text = textOf(part);
        if (text === undefined) nonTextPartCount++;
        promptTextBytes += Buffer.byteLength(text ?? "");
        addId(storedObjectIds, part.file, "file_id");
      }
    }
    if (message.tool_calls !== undefined)
      promptTextBytes += measureText(message.tool_calls).textBytes;
    if (isJsonObject(message.audio)) nonTextPartCount++;
    addId(storedObjectIds, message.audio, "id");
  }
  // Over the responses interface tools of the provider's own pass as they are, with the stores and files that they name.
  const inTools = findStoredObjects({ tools: body.tools });
  storedObjectIds.push(...inTools.objectIds);
  return {
    messageCount: body.messages.length,
    promptTextBytes,
    nonTextPartCount,
    needsWholeContext:
      nonTextPartCount > 0 || inTools.needsWholeContext || Array.isArray(body.mcp_servers),
    storedObjectIds,
  };
}

/** What is read of a checked body here. What the check leaves open is unknown. */
interface Prompt {
  readonly messages: readonly Message[];
  /** Instructions in the field that Anthropic's interface has for them: it goes there as it stands. */
  readonly system?: unknown;
  readonly tools?: unknown;
  readonly functions?: unknown;
  readonly response_format?: unknown;
  /** Servers whose tools Anthropic calls by itself, with results that nobody here sees. */
  readonly mcp_servers?: unknown;
}

interface Message {
  readonly content?: string | readonly Part[] | null;
  readonly tool_calls?: unknown;
  /** An earlier answer in sound, named by its id. */
  readonly audio?: unknown;
}

interface Part {
  readonly type: string;
  readonly text?: unknown;
  readonly refusal?: unknown;
  readonly file?: unknown;
}

/** The text of a text part, or of a refusal that is sent back; undefined for any other part. */
function textOf(part: Part): string | undefined {
  const text = part.type === "refusal" ? part.refusal : part.text;
  return typeof text === "string" && TEXT_PARTS.has(part.type) ? text : undefined;
}

function addId(ids: string[], value: unknown, key: string): void {
  const id = isJsonObject(value) ? value[key] : undefined;
  if (typeof id === "string") ids.push(id);
}
