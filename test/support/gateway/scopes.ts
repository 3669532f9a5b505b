import type { App } from "../../../src/app.ts";
import type { Caller } from "../../../src/auth/knownKeys.ts";
import { noExtras } from "../../../src/billing/cost.ts";
import { admit } from "../../../src/gateway/admission/admit.ts";
import { findModel } from "../../../src/gateway/catalog.ts";
import {
  withChecked,
  type AdmittedScope,
  type Checked,
  type RequestScope,
} from "../../../src/gateway/requestScope.ts";
import { freePermit } from "./permits.ts";

/** A request of the key's that has come as far as the check of its body. */
export function scopeOf(app: App, caller: Caller | undefined): RequestScope {
  if (!caller) throw new Error("there is no such key");
  return {
    gateway: app.gateway,
    requestId: app.newId("req"),
    snapshot: app.gateway.current,
    caller,
    arrivedMs: app.gateway.clock.epochMs(),
    permit: freePermit(app, caller.id),
    signal: new AbortController().signal,
    span: undefined,
    checked: undefined,
    admitted: undefined,
    header: () => null,
    addLogFields() {},
    logFailure() {},
    onStreamEnd() {},
  };
}

/** Asks the model `small` for a whole answer; what needs no waiting is decided before this returns. */
export function admitChat(
  scope: RequestScope,
  figures: Partial<Checked> = {},
): Promise<AdmittedScope> {
  const model = findModel(scope.snapshot.catalog, null, "small");
  const checked = withChecked(scope, {
    endpoint: "chat",
    stream: false,
    serviceTier: "standard",
    models: [model],
    candidates: model.chatCandidates,
    session: undefined,
    prompt: { bodyBytes: 100, messageCount: 1, unbounded: false, ...noExtras },
    promptEstimate: 5,
    promptTokensMin: 0,
    attachmentTokens: 0,
    outputTokensBound: undefined,
    choiceCount: 1,
    ...figures,
  });
  return admit(checked);
}
