import { withBody } from "../../contract/chat/chatRequest.ts";
import { checkPromptBody, type CheckedPrompt } from "../../contract/jsonBody.ts";
import { wholeValue } from "../../lib/jsonObject.ts";
import type { JsonFields, JsonObjectText } from "../../lib/json.ts";
import type { ChatSource } from "../endpoints/chatCall.ts";
import type { ConfigSnapshot } from "../gateway.ts";
import type { RequestScope } from "../requestScope.ts";
import { LARGE_BODY_BYTES, type RunTask } from "./largeBodies.ts";
import { largeText, type LargeText } from "./largeText.ts";
import type { CheckName, Tasks, TranslatedTask } from "./tasks.ts";

/** Whether the Worker has to check the body. */
export function isLarge(body: Uint8Array): boolean {
  return body.length > LARGE_BODY_BYTES;
}

/** Runs tasks on the text of a large body. Undefined for a short one, which is not sent to the Worker. */
export function taskRunner({ gateway }: RequestScope, object: JsonObjectText): RunTask | undefined {
  if (!isLarge(object.bytes)) return undefined;
  return gateway.largeBodies.runnerFor(object);
}

/** A large request as a chat, as the Worker has translated it. */
export function largeChat(
  { gateway }: RequestScope,
  { request, chat }: TranslatedTask,
): Omit<ChatSource, "endpoint"> {
  const object = largeText(chat);
  return {
    request: withBody(request, () => wholeValue(object)),
    object,
    runTask: gateway.largeBodies.runnerFor(object),
  };
}

type Checked<Name extends CheckName> = ReturnType<Tasks[Name]>["request"];

/** Checks a body by the operator's rules, a large one in the Worker. `name` is the task of `check`. Rejects with ApiError 400. */
export async function checkBody<Name extends CheckName>(
  scope: RequestScope,
  body: Uint8Array,
  name: Name,
  check: (value: JsonFields, rules: ConfigSnapshot["config"]["api"]) => Checked<Name>,
): Promise<CheckedPrompt<Checked<Name>>> {
  if (isLarge(body)) return checkInWorker(scope, body, name);
  return checkPromptBody(body, (value) => check(value, scope.snapshot.config.api));
}

/** Checks a large body by the operator's rules. Rejects with ApiError 400. */
export async function checkInWorker<Name extends CheckName>(
  { gateway, caller, snapshot }: RequestScope,
  body: Uint8Array,
  name: Name,
): Promise<CheckedPrompt<Checked<Name>> & { readonly object: LargeText }> {
  const held = { bytes: body };
  const rules = snapshot.config.api;
  const checked = await gateway.largeBodies.check(caller.accountId, held, name, rules);
  const { request, members, sessionName } = checked;
  return { request, object: largeText({ ...held, members }), sessionName: () => sessionName };
}
