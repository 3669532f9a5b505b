import { estimateTokens } from "../../billing/estimate.ts";
import { noExtras, type PromptExtent } from "../../billing/cost.ts";
import { checkChatRequest, ownChatRules } from "../../contract/chat/chatRequest.ts";
import { ApiError, invalidRequest } from "../../contract/errors.ts";
import { longPromptCacheTtl } from "../../contract/requestFields.ts";
import { parseExactly } from "../../lib/exactJson.ts";
import { fieldsOf, type JsonFields, type JsonObjectText } from "../../lib/json.ts";
import { parseObjectText } from "../../lib/jsonObject.ts";
import { UnsupportedRequestError } from "../../providers/provider.ts";
import { identityOf } from "./chat.ts";
import type { AnswerIdentity } from "../decoding/publicAnswer.ts";
import { refuseForeignFiles } from "./messagesRequest.ts";
import type { RequestScope } from "../requestScope.ts";
import { ChatCall } from "./chatCall.ts";
import { ResponsesForm } from "../translation/responses/chatToResponses.ts";
import { settingsOf, type ResponsesSettings } from "../translation/responses/responsesSettings.ts";
import { chatBodyOf } from "../translation/responses/responsesToChat.ts";

/** A responses request as a chat, for routes without the responses interface. */
export interface TranslatedResponse {
  readonly chat: ChatCall;
  readonly prompt: PromptExtent;
  readonly promptEstimate: number;
}

/** Translates a responses request into a chat. Returns the ApiError of a request that a chat cannot express. */
export function translateResponse(
  scope: RequestScope,
  object: JsonObjectText,
): TranslatedResponse | ApiError {
  try {
    return translated(scope, fieldsOf(parseExactly(object.text)));
  } catch (error) {
    if (error instanceof UnsupportedRequestError) return invalidRequest(error.message);
    if (error instanceof ApiError) return error;
    throw error;
  }
}

/** Throws UnsupportedRequestError, and ApiError like a chat with the same content. */
function translated(scope: RequestScope, body: JsonFields): TranslatedResponse {
  const { value, object } = parseObjectText(JSON.stringify(chatBodyOf(body)));
  const request = checkChatRequest(fieldsOf(value), ownChatRules(scope.snapshot.config.api));
  refuseForeignFiles(scope, request.objectIds);
  // The check of the responses request does not see what is inside returned reasoning.
  if (request.usesLongCacheTtl) throw longPromptCacheTtl();
  const identityFor = (model: string): AnswerIdentity => ({
    ...identityOf(scope, model),
    id: scope.requestId.replace("req_", "resp_"),
    unknownFields: "forward",
  });
  const { textBytes, nonTextParts } = request.promptSize;
  return {
    chat: new ChatCall("responses", request, object, identityFor, responsesForms(settingsOf(body))),
    prompt: {
      bodyBytes: Buffer.byteLength(object.text),
      messageCount: request.messageCount,
      unbounded: request.needsWholeContext,
      ...noExtras,
    },
    promptEstimate: estimateTokens(textBytes, nonTextParts),
  };
}

/** A separate function, because a stream retains its form (memory rules: docs/architecture.md). */
function responsesForms(settings: ResponsesSettings): (identity: AnswerIdentity) => ResponsesForm {
  return (identity) => new ResponsesForm(identity, settings);
}
