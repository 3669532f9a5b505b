import { Deadline } from "../lib/clock.ts";
import { ownFault, UpstreamError, type UpstreamExchange } from "../providers/upstream.ts";
import { GATEWAY_ACCOUNT } from "../routing/accountFailures.ts";
import type { Candidate } from "../routing/candidates.ts";
import { Attempt, type AttemptListener } from "../routing/attempts.ts";
import { operatorEvent } from "./attemptLog.ts";
import type { Gateway } from "./gateway.ts";
import { askRoute, probeOf } from "./routeProbe.ts";

/** The longest time for the short answer, even if the timeouts of the provider are longer. */
const ANSWER_TIMEOUT_MAX_MS = 15_000;

/**
 * Asks a route for the shortest answer, as the gateway's own attempt: it finds out whether the provider fails, or only the
 * requests of one account. Nobody is charged, and no request is recorded. Never rejects.
 */
export async function probeRoute(
  gateway: Gateway,
  candidate: Candidate,
  requestId: string,
): Promise<void> {
  const attempt = new Attempt(gateway, candidate, GATEWAY_ACCOUNT, listenerOf(gateway, requestId));
  const { exchanges } = gateway.inFlight;
  let current: UpstreamExchange | undefined;
  const timeout = new Deadline(gateway.deadlines, () =>
    current?.abort(new UpstreamError("provider", "timeout")),
  );
  timeout.set(Math.min(candidate.provider.config.totalTimeoutMs, ANSWER_TIMEOUT_MAX_MS));
  try {
    const failure = await askRoute(probeOf(candidate), requestId, {
      sent(exchange) {
        current = exchange;
        exchanges.add(exchange);
      },
      ended: (exchange) => exchanges.delete(exchange),
    });
    attempt.ended(failure && isAnswer(failure) ? undefined : failure);
  } catch (bug) {
    attempt.ended(ownFault(bug));
  } finally {
    timeout.clear();
  }
}

/** The provider works, and refuses this question. */
function isAnswer({ fault }: UpstreamError): boolean {
  return ["caller", "isolated", "notFound", "tooLarge"].includes(fault);
}

function listenerOf({ log, metrics }: Gateway, requestId: string): AttemptListener {
  return {
    attempted({ outcome, status, durationMs }, candidate, failure) {
      const named = { provider: candidate.provider.id, model: candidate.route.model, outcome };
      metrics.probed(named);
      const fields = { request_id: requestId, ...named, ...(status === null ? {} : { status }) };
      log.debug("the gateway asked a route itself", { ...fields, duration_ms: durationMs });
      const event = failure && operatorEvent(failure);
      if (event) log.error(event, { ...fields, cooldown_ms: failure.cooldownMs });
    },
  };
}
