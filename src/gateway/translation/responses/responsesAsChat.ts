import {
  checkChatRequest,
  ownChatRules,
  type ChatRequest,
} from "../../../contract/chat/chatRequest.ts";
import type { ExtraRules } from "../../../contract/extras.ts";
import type { CheckedBody } from "../../../contract/jsonBody.ts";
import { parseExactly } from "../../../lib/exactJson.ts";
import { fieldsOf } from "../../../lib/json.ts";
import { parseObject } from "../../../lib/jsonObject.ts";
import { settingsOf, type ResponsesSettings } from "./responsesSettings.ts";
import { chatBodyOf } from "./responsesToChat.ts";

/** A responses request as a chat, and what its answer needs of it. */
export interface ResponsesChat extends CheckedBody<ChatRequest> {
  readonly settings: ResponsesSettings;
}

/** A checked responses request as a chat. Throws UnsupportedRequestError, and ApiError like a chat with the same content. */
export function responsesAsChat(
  text: string,
  rules: Pick<ExtraRules, "allowedTools">,
): ResponsesChat {
  const body = fieldsOf(parseExactly(text));
  const { value, object } = parseObject(JSON.stringify(chatBodyOf(body)));
  const request = checkChatRequest(fieldsOf(value), ownChatRules(rules));
  return { request, object, settings: settingsOf(body) };
}
