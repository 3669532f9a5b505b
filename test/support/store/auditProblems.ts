import type { GatewayProcess } from "../binary/gatewayProcess.ts";
import { untilAsync } from "../until.ts";
import { auditAt, rowsAt } from "./gatewayDatabase.ts";

type Audited = Pick<GatewayProcess, "place" | "auditor">;

/** The problems that the product's own audit and the auditor find in an idle gateway. */
export async function auditProblems({ place, auditor }: Audited): Promise<string[]> {
  return [...(await auditAt(place, { atRest: true })), ...(await auditor.problems())];
}

/** The same once no request is running, or after `withinMs`: a request that still runs then is a problem. */
export async function auditProblemsAtRest(gateway: Audited, withinMs: number): Promise<string[]> {
  const deadlineMs = performance.now() + withinMs;
  while ((await isAnyRunning(gateway)) && performance.now() < deadlineMs) await Bun.sleep(1);
  return await auditProblems(gateway);
}

async function isAnyRunning({ place }: Pick<Audited, "place">): Promise<boolean> {
  const running = await rowsAt(place, "SELECT id FROM requests WHERE status = 'running' LIMIT 1");
  return running.length > 0;
}

/** A replica that was killed is ended after 15 s of silence. The rest is for a busy machine. */
const endedWithinMs = 30_000;

/**
 * The problems after a crash, in a gateway that was started again. Its start releases all reserves of a file. With a
 * server it releases them some time later: this waits for it. No request was sent since the start.
 */
export async function problemsAfterCrash(gateway: Audited): Promise<string[]> {
  const { place } = gateway;
  const reserves = () =>
    rowsAt<{ name: string }>(place, "SELECT name FROM accounts WHERE reserved <> 0");
  const isReleased = async () => (await reserves()).length === 0 && !(await isAnyRunning(gateway));
  if ("url" in place)
    await untilAsync("what the killed gateway left is released", isReleased, endedWithinMs);
  const reserved = await reserves();
  return [
    ...reserved.map(({ name }) => `the start did not release the reserve of ${name}`),
    ...(await auditProblems(gateway)),
  ];
}
