import { Elysia } from "elysia";
import type { ReadableMetrics } from "../telemetry/metrics.ts";
import { keepPath } from "./requestPath.ts";

/** A scraper asks with nothing in the body. */
const BODY_BYTES_MAX = 1024;
const IDLE_TIMEOUT_SECONDS = 30;

/** The listener for a scraper: GET and HEAD /metrics, and nothing else. It asks for no key. */
export function createMetricsServer(metrics: ReadableMetrics) {
  return new Elysia({
    strictPath: true,
    normalize: false,
    serve: {
      idleTimeout: IDLE_TIMEOUT_SECONDS,
      maxRequestBodySize: BODY_BYTES_MAX,
      reusePort: false,
    },
  })
    .wrap(keepPath)
    .onError(({ code }) =>
      code === "NOT_FOUND" ? plainText(404, "not found\n") : plainText(500, "no metrics\n"),
    )
    .get("/metrics", async () => plainText(200, await metrics.read(), metrics.contentType));
}

function plainText(status: number, text: string, type = "text/plain; charset=utf-8"): Response {
  return new Response(text, {
    status,
    headers: { "content-type": type, "cache-control": "no-store" },
  });
}
