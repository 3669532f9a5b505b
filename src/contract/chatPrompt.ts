import { isJsonObject } from "../lib/json.ts";
import { measureText } from "./textSize.ts";

const TEXT_PARTS: ReadonlySet<string> = new Set(["text", "refusal"]);

/** What a prompt holds, for estimates and for the check of who owns what it names. */
export interface PromptMeasure {
  readonly messageCount: number;
  /** UTF-8 bytes of the texts that a model reads: contents, tool calls, tool and format definitions. */
  readonly promptTextBytes: number;
  /** Parts that are not text (images, files, sound): their tokens cannot be told from their bytes. */
  readonly nonTextPartCount: number;
  /** Ids of files and recordings that the prompt names at the provider, as the client wrote them. */
  readonly storedObjectIds: readonly string[];
}

/** Measures a body that was checked. */
export function measurePrompt(body: Prompt): PromptMeasure {
  const storedObjectIds: string[] = [];
  let promptTextBytes = measureText([body.tools, body.functions, body.response_format]).textBytes;
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
  return {
    messageCount: body.messages.length,
    promptTextBytes,
    nonTextPartCount,
    storedObjectIds,
  };
}

/** What is read of a checked body here. What the check leaves open is unknown. */
interface Prompt {
  readonly messages: readonly Message[];
  readonly tools?: unknown;
  readonly functions?: unknown;
  readonly response_format?: unknown;
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
