import {
  chatFiguresOf,
  figuresOf,
  withBody,
  type ChatFigures,
  type ChatRequest,
  type ChatRequestRules,
} from "../../contract/chat/chatRequest.ts";
import type { ProviderKind } from "../../config/schema.ts";
import {
  checkEmbeddingsRequest,
  type EmbeddingsFigures,
  type EmbeddingsRules,
} from "../../contract/embeddings.ts";
import type { ExtraRules } from "../../contract/extras.ts";
import {
  checkPromptBody,
  parseJsonObject,
  type CheckedBody,
  type CheckedPrompt,
} from "../../contract/jsonBody.ts";
import {
  checkCountTokensRequest,
  checkMessagesRequest,
  type MessagesRules,
} from "../../contract/messages/messagesRequest.ts";
import { checkResponsesRequest, type ResponsesRules } from "../../contract/responses.ts";
import { sessionIdOf } from "../../contract/session.ts";
import { decodeUtf8, type JsonObjectText, type Member } from "../../lib/json.ts";
import { wholeValue } from "../../lib/jsonObject.ts";
import { assert } from "../../lib/assert.ts";
import type { EncodedRequest } from "../../providers/provider.ts";
import { adapterOf } from "../../providers/registry.ts";
import { addedPromptBytes } from "../../providers/dialect/adaptChat.ts";
import {
  encodeChat,
  type ChatTarget,
  type ChoiceBounds,
  type EncodedChat,
} from "../endpoints/chatTarget.ts";
import { ownMessagesText } from "../translation/messages/translatedThinking.ts";
import { messagesAsChat } from "../translation/messages/messagesAsChat.ts";
import { ownResponsesText } from "../translation/responses/encryptedContent.ts";
import { responsesAsChat } from "../translation/responses/responsesAsChat.ts";
import { writeSettings } from "../translation/responses/responsesSettings.ts";
import { largeText } from "./largeText.ts";

/** A text with the positions of its members. */
type Text = Pick<JsonObjectText, "bytes" | "members">;

/** A translated request: the figures and the text of the chat. */
export interface TranslatedTask {
  readonly request: ChatFigures;
  readonly chat: Text;
}

/** What the Worker needs to write a chat for a route, besides the chat's text. */
interface ChatToEncode {
  readonly request: ChatFigures;
  readonly members: readonly Member[];
  readonly target: ChatTarget;
  readonly bounds: ChoiceBounds;
}

interface EmbeddingsToEncode {
  readonly request: EmbeddingsFigures;
  readonly members: readonly Member[];
  readonly kind: ProviderKind;
  readonly model: string;
}

/**
 * What the Worker does with a large body. Each task gets the bytes of the body, and data that a message to the Worker can
 * have. So has its result, which shares no memory with the body. It throws ApiError and UnsupportedRequestError.
 */
export const tasks = {
  checkChat: (body: Uint8Array, rules: ChatRequestRules) =>
    withoutText(checkPromptBody(body, (value) => chatFiguresOf(value, rules))),
  checkMessages: (body: Uint8Array, rules: MessagesRules) =>
    withoutText(checkPromptBody(body, (value) => checkMessagesRequest(value, rules))),
  checkCountTokens: (body: Uint8Array, rules: MessagesRules) =>
    withoutText(checkPromptBody(body, (value) => checkCountTokensRequest(value, rules))),
  checkResponses: (body: Uint8Array, rules: ResponsesRules) =>
    withoutText(checkPromptBody(body, (value) => checkResponsesRequest(value, rules))),
  checkEmbeddings(body: Uint8Array, rules: EmbeddingsRules) {
    const { value, object } = parseJsonObject(body);
    const { texts: _, ...request } = checkEmbeddingsRequest(value, rules);
    return withoutText({ request, object, sessionName: () => sessionIdOf(value) });
  },
  translateMessages: (body: Uint8Array, rules: Pick<ExtraRules, "allowedTools">) =>
    translated(messagesAsChat(decodeUtf8(body), rules)),
  translateResponses(body: Uint8Array, rules: Pick<ExtraRules, "allowedTools">) {
    const { settings, ...chat } = responsesAsChat(decodeUtf8(body), rules);
    return { ...translated(chat), settings: writeSettings(settings) };
  },
  addedPromptBytes: (body: Uint8Array) =>
    addedPromptBytes(wholeValue(largeText({ bytes: body, members: [] }))),
  encodeChat(bytes: Uint8Array, { request, members, target, bounds }: ChatToEncode): EncodedChat {
    const object = largeText({ bytes, members });
    const chat = { request: withBody(request, () => wholeValue(object)), object };
    const { encoded, toolNames } = encodeChat(chat, target, bounds);
    return { encoded: joined(encoded), toolNames };
  },
  encodeEmbeddings(bytes: Uint8Array, { request, members, kind, model }: EmbeddingsToEncode) {
    const object = largeText({ bytes, members });
    const texts = [wholeValue(object)["input"]].flat().map(String);
    const { embeddings } = adapterOf(kind);
    assert(embeddings !== undefined, "embeddings for a provider without them");
    return joined(embeddings.encode({ request: { ...request, texts }, object, model }));
  },
  ownMessages: (bytes: Uint8Array, members: readonly Member[]) =>
    changed(largeText({ bytes, members }), ownMessagesText),
  ownResponses: (bytes: Uint8Array, members: readonly Member[]) =>
    changed(largeText({ bytes, members }), ownResponsesText),
};

export type Tasks = typeof tasks;
export type TaskName = keyof Tasks;
export type CheckName = Extract<TaskName, `check${string}`>;

/** The body in one piece, which shares no memory with the client's text. */
function joined(encoded: EncodedRequest): EncodedRequest {
  const { body } = encoded;
  const whole = typeof body === "string" ? Buffer.from(body) : Buffer.concat(body);
  return { ...encoded, body: [whole] };
}

/** A checked request without its text. */
function withoutText<Request>({ request, object, sessionName }: CheckedPrompt<Request>): {
  readonly request: Request;
  readonly members: readonly Member[];
  readonly sessionName: string | undefined;
} {
  return { request, members: object.members, sessionName: sessionName() };
}

function translated({ request, object }: CheckedBody<ChatRequest>): TranslatedTask {
  const { bytes, members } = object;
  return { request: figuresOf(request), chat: { bytes, members } };
}

/** The changed text; undefined if it is the same. */
function changed(
  object: JsonObjectText,
  change: (object: JsonObjectText) => JsonObjectText,
): Text | undefined {
  const after = change(object);
  return after === object ? undefined : { bytes: after.bytes, members: after.members };
}
