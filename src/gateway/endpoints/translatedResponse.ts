import { estimateTokens } from "../../billing/estimate.ts";
import { noExtras, type PromptExtent } from "../../billing/cost.ts";
import { checkChatRequest, ownChatRules } from "../../contract/chat/chatRequest.ts";
import { ApiError, invalidRequest } from "../../contract/errors.ts";
import { longPromptCacheTtl } from "../../contract/requestFields.ts";
import type { ResponsesRequest } from "../../contract/responses.ts";
import { parseExactly } from "../../lib/exactJson.ts";
import { fieldsOf, type JsonFields } from "../../lib/json.ts";
import { parseObjectText } from "../../lib/jsonObject.ts";
import { UnsupportedRequestError } from "../../providers/provider.ts";
import { identityOf } from "./chat.ts";
import type { CheckedBody, Gateway, RequestContext } from "../gateway.ts";
import type { AnswerIdentity } from "../decoding/publicAnswer.ts";
import { refuseForeignFiles } from "./messagesRequest.ts";
import { ProviderChat } from "./providerChat.ts";
import { ResponsesForm } from "../translation/responses/chatToResponses.ts";
import { settingsOf, type ResponsesSettings } from "../translation/responses/responsesSettings.ts";
import { chatBodyOf } from "../translation/responses/responsesToChat.ts";

/** A responses request as a chat, for routes without the responses interface. */
export interface TranslatedResponse {
  readonly chat: ProviderChat;
  readonly prompt: PromptExtent;
  readonly promptEstimate: number;
}

/** Translates a responses request into a chat. Returns the ApiError of a request that a chat cannot express. */
export function translateResponse(
  gateway: Gateway,
  context: RequestContext,
  { object }: CheckedBody<ResponsesRequest>,
): TranslatedResponse | ApiError {
  try {
    return translated(gateway, context, fieldsOf(parseExactly(object.text)));
  } catch (error) {
    if (error instanceof UnsupportedRequestError) return invalidRequest(error.message);
    if (error instanceof ApiError) return error;
    throw error;
  }
}

/** Throws UnsupportedRequestError, and ApiError like a chat with the same content. */
function translated(
  gateway: Gateway,
  context: RequestContext,
  body: JsonFields,
): TranslatedResponse {
  const { value, object } = parseObjectText(JSON.stringify(chatBodyOf(body)));
  const request = checkChatRequest(fieldsOf(value), ownChatRules(context.snapshot.config.api));
  refuseForeignFiles(context, request.objectIds);
  // The check of the responses request does not see what is inside returned reasoning.
  if (request.usesLongCacheTtl) throw longPromptCacheTtl();
  const identityFor = (model: string): AnswerIdentity => ({
    ...identityOf(gateway, context, model),
    id: context.requestId.replace("req_", "resp_"),
    unknownFields: "forward",
  });
  const { textBytes, nonTextParts } = request.promptSize;
  return {
    chat: new ProviderChat(
      request,
      object,
      identityFor,
      responsesForms(settingsOf(body)),
      "responses",
    ),
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
