import {
  checkChatRequest,
  ownChatRules,
  type ChatRequest,
} from "../../../contract/chat/chatRequest.ts";
import { ApiError } from "../../../contract/errors.ts";
import type { ExtraRules } from "../../../contract/extras.ts";
import { parseJsonObject, type CheckedBody } from "../../../contract/jsonBody.ts";
import { parseExactly } from "../../../lib/exactJson.ts";
import { fieldsOf, type JsonFields } from "../../../lib/json.ts";
import { UnsupportedRequestError } from "../../../providers/provider.ts";
import { chatBodyOfMessages, stopsBeyondChat } from "./messagesToChat.ts";

type Rules = Pick<ExtraRules, "allowedTools">;

/** A checked Messages request as a chat. Throws UnsupportedRequestError. */
export function messagesAsChat(text: string, rules: Rules): CheckedBody<ChatRequest> {
  const body = fieldsOf(parseExactly(text));
  const { value, object } = parseJsonObject(JSON.stringify(chatBodyOfMessages(body)));
  return { request: { ...checked(value, rules), moreStops: stopsBeyondChat(body) }, object };
}

/** Throws UnsupportedRequestError: native routes may accept what a chat does not. */
function checked(body: JsonFields, rules: Rules): ChatRequest {
  try {
    return checkChatRequest(body, ownChatRules(rules));
  } catch (error) {
    if (error instanceof ApiError) throw new UnsupportedRequestError(error.message);
    throw error;
  }
}
