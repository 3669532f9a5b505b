import { askedTier, type AskedTier } from "../serviceTier.ts";
import { type JsonFields, fieldsOf } from "../../lib/json.ts";
import { lazy } from "../../lib/lazy.ts";
import {
  bodyCheck,
  ownValue,
  usesLongPromptCacheTtl,
  refuseDifferentBounds,
  refuseFields,
  refuseOtherNames,
} from "../requestFields.ts";
import { readExtras, type AskedExtras, type ExtraRules } from "../extras.ts";
import { measurePrompt, type PromptMeasure } from "./chatPrompt.ts";
import {
  chatBodyWith,
  extraEfforts,
  hasValidContent,
  RequestMessage,
  strictChatBodyWith,
  type ChatRequestBody,
  type ContentPart,
  type ReasoningEffort,
} from "./chatRequestBody.ts";
import { invalidRequest } from "../errors.ts";
import { validationMessage } from "../validationMessage.ts";
import { refuseCacheOptionsInOtherCase, refuseKeysInOtherCase } from "../keyCase.ts";

/** The checks of a body for each list of `extraReasoningEfforts`. */
const checks = new Map<string, ReturnType<typeof checksWith>>();

function checksFor(extra: readonly string[]): ReturnType<typeof checksWith> {
  const key = extra.join();
  let known = checks.get(key);
  if (known === undefined) checks.set(key, (known = checksWith(extra)));
  return known;
}

function checksWith(extra: readonly string[]) {
  return {
    open: bodyCheck(chatBodyWith(extra)),
    strict: bodyCheck(strictChatBodyWith(extra)),
  };
}

/** A checked request: what the gateway itself needs, and the parsed body for the adapters. */
export interface ChatRequest extends ChatFigures {
  /** The whole body. The first read may parse it. */
  readonly body: ChatRequestBody;
}

/** What the gateway needs of a chat, without the texts of its prompt. */
export interface ChatFigures extends PromptMeasure, AskedExtras {
  readonly model: string;
  readonly stream: boolean;
  /** The caller asks for usage in the stream. */
  readonly includeUsage: boolean;
  readonly choiceCount: number;
  /** The caller's bound of each choice, in tokens, under any of its names. */
  readonly outputTokensBound: number | undefined;
  readonly stop: readonly string[];
  /** A part of the prompt is to be kept in the provider's cache for an hour. */
  readonly usesLongCacheTtl: boolean;
  readonly serviceTier: AskedTier;
  readonly hasTools: boolean;
  readonly effort: ReasoningEffort | undefined;
  /** Stop sequences beyond those that a chat can have. The gateway applies them. */
  readonly moreStops?: readonly string[];
}

/** The operator's rules. `refusedFields` are top-level names. */
export interface ChatRequestRules extends ExtraRules {
  readonly unknownFields: "forward" | "reject";
  readonly refusedFields: readonly string[];
  /** Values of `reasoning_effort` besides those of the specification. */
  readonly extraReasoningEfforts: readonly string[];
}

/** The rules for a chat that the gateway writes: the operator's rules were applied to the client's own request. */
export function ownChatRules({ allowedTools }: Pick<ExtraRules, "allowedTools">): ChatRequestRules {
  return {
    unknownFields: "forward",
    refusedFields: [],
    refusedTools: [],
    extraReasoningEfforts: extraEfforts,
    allowedTools,
  };
}

/** Checks a whole body that `parseJsonObject` accepted. Throws ApiError 400 with the first problem. */
export function checkChatRequest(value: JsonFields, rules: ChatRequestRules): ChatRequest {
  return withBody(chatFiguresOf(value, rules), () => value);
}

/** The figures alone: the body is not read. */
export function figuresOf(request: ChatRequest): ChatFigures {
  const names = Object.keys(request).filter((name) => name !== "body");
  return Object.fromEntries(
    names.map((name) => [name, request[name as keyof ChatFigures]]),
  ) as unknown as ChatFigures;
}

/** A request whose body is parsed when it is first read. `parse` is given a body that was checked. */
export function withBody(figures: ChatFigures, parse: () => JsonFields): ChatRequest {
  const body = lazy(() => parse() as ChatRequestBody);
  return {
    ...figures,
    get body() {
      return body();
    },
  };
}

/** Checks a body or its outline (`lib/outline.ts`). Throws ApiError 400 with the first problem. */
export function chatFiguresOf(value: JsonFields, rules: ChatRequestRules): ChatFigures {
  const body: ChatRequestBody =
    rules.unknownFields === "reject"
      ? checksFor(rules.extraReasoningEfforts).strict(value)
      : checkOpenly(value, rules);
  refuseFields(value, rules.refusedFields);
  refuseOtherNames(value, "max_tokens");
  const measure = measurePrompt(body);
  const { audioParts, videoParts } = measure.promptSize;
  const extras = readExtras(value, rules, {
    hasAudio: audioParts > 0,
    hasVideo: videoParts > 0,
    toolCallsBound: ownValue(value, "max_tool_calls"),
  });
  const usesLongCacheTtl = usesLongPromptCacheTtl(value);
  refuseDifferentBounds(body);
  const { tools } = value;
  return {
    model: body.model,
    stream: body.stream ?? false,
    includeUsage: body.stream_options?.include_usage ?? false,
    choiceCount: body.n ?? 1,
    outputTokensBound:
      body.max_tokens ?? body.max_completion_tokens ?? body.max_output_tokens ?? undefined,
    stop: typeof body.stop === "string" ? [body.stop] : (body.stop ?? []),
    usesLongCacheTtl,
    serviceTier: askedTier(value),
    ...extras,
    ...measure,
    hasTools: Array.isArray(tools) && tools.length > 0,
    effort: body.reasoning_effort ?? undefined,
  };
}

function checkOpenly(value: unknown, { extraReasoningEfforts }: ChatRequestRules): ChatRequestBody {
  const body = checksFor(extraReasoningEfforts).open(value);
  for (const [index, message] of body.messages.entries()) {
    // This check is much cheaper than writing the message of a problem.
    if (hasValidContent(message)) continue;
    const problem = validationMessage(RequestMessage, message, `messages[${index}]`);
    if (problem !== undefined) throw invalidRequest(problem);
  }
  refuseChatInOtherCase(body);
  return body;
}

const STREAM_OPTIONS: ReadonlySet<string> = new Set(["include_usage"]);
const MESSAGE: ReadonlySet<string> = new Set([
  "role",
  "content",
  "tool_calls",
  "function_call",
  "audio",
]);
const PART: ReadonlySet<string> = new Set(["type", "text", "refusal", "file", "file_id"]);
const AUDIO: ReadonlySet<string> = new Set(["voice"]);
const STORED_OBJECT: ReadonlySet<string> = new Set(["id", "file_id"]);

/** Throws ApiError 400 for a key inside the body that differs from a known key only in case: see `refuseFieldsInOtherCase`. */
function refuseChatInOtherCase(body: ChatRequestBody): void {
  const { stream_options, prompt_cache_options, audio }: JsonFields = body;
  refuseKeysInOtherCase(stream_options, STREAM_OPTIONS, () => "stream_options.");
  refuseCacheOptionsInOtherCase(prompt_cache_options);
  refuseKeysInOtherCase(audio, AUDIO, () => "audio.");
  refuseKeysInOtherCase(fieldsOf(audio)["voice"], STORED_OBJECT, () => "audio.voice.");
  for (const [index, message] of body.messages.entries()) {
    const path = (): string => `messages[${index}].`;
    refuseKeysInOtherCase(message, MESSAGE, path);
    const { audio }: JsonFields = message;
    if (audio !== undefined) refuseKeysInOtherCase(audio, STORED_OBJECT, () => `${path()}audio.`);
    if (Array.isArray(message.content)) refuseParts(message.content, path);
  }
}

function refuseParts(parts: readonly ContentPart[], path: () => string): void {
  for (const [index, part] of parts.entries()) {
    const partPath = (): string => `${path()}content[${index}].`;
    refuseKeysInOtherCase(part, PART, partPath);
    const { file }: JsonFields = part;
    if (file !== undefined) refuseKeysInOtherCase(file, STORED_OBJECT, () => `${partPath()}file.`);
  }
}
