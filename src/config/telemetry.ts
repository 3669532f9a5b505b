import { readHeaders } from "./credential.ts";
import type { DeepPartial, Inspection } from "./inspection.ts";
import type { Config, ConfigFile } from "./schema.ts";
import { baseOf, isUnencrypted, readServerUrl } from "./serverUrl.ts";

/** Reads the trace collector. Undefined if no traces are sent. Problems go to the inspection. */
export function readTelemetry(
  { otlp = "", headers = {} }: NonNullable<DeepPartial<ConfigFile>["telemetry"]>,
  inspection: Inspection,
): Config["telemetry"] {
  const checked = readHeaders(headers, "telemetry.headers", inspection);
  if (otlp === "") {
    if (Object.keys(checked).length > 0)
      inspection.problem("telemetry.headers", "requires otlp: set it, or remove the headers");
    return undefined;
  }
  const key = "telemetry.otlp";
  const url = readServerUrl(otlp, key, "headers", inspection);
  if (url === undefined) return undefined;
  if (/\/v1\/traces\/*$/.test(url.pathname))
    inspection.problem(key, "must not include /v1/traces: the gateway adds it");
  if (isUnencrypted(url)) {
    inspection.warning(
      key,
      "is http:// to a public address: the headers and all spans are sent unencrypted",
    );
  }
  return { otlp: baseOf(url), headers: checked };
}
