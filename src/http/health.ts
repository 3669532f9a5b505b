import type { App } from "../app.ts";
import { StoreBlocked } from "../gateway/gateway.ts";
import { version } from "../lib/version.ts";
import { errorClass } from "../telemetry/log.ts";

interface HealthAnswer {
  readonly status: 200 | 503;
  readonly body: string;
}

/** What /healthz says; it reads the store, because a gateway without one serves nobody. */
export function health(app: App): HealthAnswer {
  if (app.isDraining) return { status: 503, body: JSON.stringify({ status: "draining" }) };
  const { store, writer } = app.gateway;
  try {
    store.requireReadable();
  } catch (error) {
    return unavailable(app, errorClass(error));
  }
  const { blockedBy } = writer;
  if (blockedBy !== undefined) return unavailable(app, errorClass(new StoreBlocked(blockedBy)));
  return { status: 200, body: JSON.stringify({ status: "ok", version: version() }) };
}

function unavailable(app: App, error: string): HealthAnswer {
  app.gateway.log.error("the database is not usable", { error });
  return { status: 503, body: JSON.stringify({ status: "unavailable" }) };
}
