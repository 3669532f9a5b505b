import { candidatesOf } from "../../../src/gateway/catalog.ts";
import type { RouteState } from "../../../src/telemetry/metrics.ts";
import type { TestApp } from "./testApp.ts";

/** The breakers of the routes that were tried. */
export function breakerStates({ app }: TestApp): readonly RouteState[] {
  const { health, current } = app.gateway;
  return health.states(candidatesOf(current.catalog));
}

/** Whether a breaker is open. */
export function isAnyOpen(gateway: TestApp): boolean {
  return breakerStates(gateway).some(({ state }) => state !== "closed");
}
