import type { App } from "../app.ts";
import { version } from "../lib/version.ts";
import { errorClass } from "../telemetry/log.ts";

/** What /healthz says; it reads the store, because a gateway without one serves nobody. */
export function health(app: App): { status: 200 | 503; body: string } {
  if (app.isDraining) return { status: 503, body: JSON.stringify({ status: "draining" }) };
  try {
    app.gateway.store.probe();
  } catch (error) {
    app.gateway.log.error("the store is not usable", { error: errorClass(error) });
    return { status: 503, body: JSON.stringify({ status: "unavailable" }) };
  }
  return { status: 200, body: JSON.stringify({ status: "ok", version: version() }) };
}
