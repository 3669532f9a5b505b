import type { App } from "../app.ts";
import { errorAnswers } from "../contract/errorSchemas.ts";
import { Health, HealthProblem } from "../contract/health.ts";
import { version } from "../lib/version.ts";
import { WriteError } from "../store/store.ts";
import { errorClass } from "../telemetry/log.ts";
import { declaredRoute } from "./declaredRoute.ts";

/** GET /healthz. */
export const getHealth = declaredRoute({
  detail: {
    operationId: "getHealth",
    tags: ["service"],
    summary: "Reports whether the gateway accepts requests",
    security: [],
    responses: {
      200: { description: "The gateway accepts requests." },
      503: { description: "The gateway accepts no requests." },
    },
  },
  response: { 200: Health, 503: HealthProblem, ...errorAnswers(400) },
});

interface HealthAnswer {
  readonly status: 200 | 503;
  readonly body: string;
}

/** The answer of /healthz. It checks that the store can be read and written. */
export function health(app: App): HealthAnswer {
  if (app.phase !== "serving") return { status: 503, body: JSON.stringify({ status: "draining" }) };
  const { writer } = app.gateway;
  try {
    app.requireReadable();
  } catch (error) {
    return unavailable(app, errorClass(error));
  }
  const { blockedBy } = writer;
  if (blockedBy !== undefined) return unavailable(app, errorClass(new WriteError(blockedBy)));
  return { status: 200, body: JSON.stringify({ status: "ok", version: version() }) };
}

function unavailable(app: App, error: string): HealthAnswer {
  app.gateway.log.error("database_unusable", { error });
  return { status: 503, body: JSON.stringify({ status: "unavailable" }) };
}
