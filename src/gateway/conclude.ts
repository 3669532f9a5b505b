import type { Ending, Receipt } from "../billing/meter.ts";
import { rateLimitExceeded, serviceUnavailable } from "../contract/errors.ts";
import { totalTokens } from "../contract/usage.ts";
import { formatRoubles } from "../lib/money.ts";
import type { Candidate } from "../routing/order.ts";
import { WriteError } from "../store/store.ts";
import type { LogFields } from "../telemetry/log.ts";
import type { Admitted } from "./admit.ts";
import type { Visit } from "./gateway.ts";

/**
 * Finishes the meter of a request and tells the visit's log line. Throws ApiError and nothing else: when the ending
 * cannot be committed (502), or when the request could not be opened because its money was gone (429): then nothing that
 * looks whole may reach the client.
 */
export async function conclude(visit: Visit, admitted: Admitted, ending: Ending): Promise<Receipt> {
  try {
    const receipt = await admitted.meter.finish(ending);
    noteReceipt(visit, receipt);
    return receipt;
  } catch (error) {
    noteUnwritten(visit);
    visit.note({ outcome: "failed" });
    // Its money went to somebody else in that very moment: the next try is told whether any is left.
    const isInsufficient = error instanceof WriteError && error.failure === "insufficient";
    throw isInsufficient ? rateLimitExceeded() : serviceUnavailable(error);
  }
}

/** Of an ending: whose answer is billed, and what it costs the operator there. */
export function servedBy({
  provider,
  route,
}: Candidate): Pick<Ending, "provider" | "operatorPrice"> {
  return { provider: provider.id, operatorPrice: route.operatorPrice };
}

/** The token rate gets what was really used, and the log line what was charged. */
export function noteReceipt(visit: Visit, receipt: Receipt): void {
  visit.passage.correctTokens(totalTokens(receipt.usage));
  visit.note(receiptFields(receipt));
}

/** An answer whose end could not be written is not charged, so neither is the token rate. */
export function noteUnwritten(visit: Visit): void {
  visit.passage.correctTokens(0);
}

/** What the log line of a request says of its end. */
function receiptFields(receipt: Receipt): LogFields {
  return {
    outcome: receipt.status,
    prompt_tokens: receipt.usage.promptTokens,
    completion_tokens: receipt.usage.completionTokens,
    cost_rub: formatRoubles(receipt.charge),
    attempts: receipt.attempts.length,
    ...(receipt.provider === undefined ? {} : { provider: receipt.provider }),
    ...(receipt.estimated ? { estimated: true } : {}),
    ...(receipt.writeOff > 0n ? { write_off_rub: formatRoubles(receipt.writeOff) } : {}),
    ...(receipt.firstByteMs === undefined ? {} : { first_byte_ms: receipt.firstByteMs }),
  };
}
