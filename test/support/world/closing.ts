import type { LogLine } from "../binary/servingProcess.ts";
import type { World } from "./world.ts";

const shownMax = 20;

/** What every world is asked at its end: both audits, and its log. */
export async function closingProblems(
  { gateway }: World,
  hasErrors = false,
): Promise<readonly string[]> {
  const wrong: string[] = [];
  await gateway.expectAuditPasses().catch((error: unknown) => wrong.push(String(error)));
  return hasErrors ? wrong : [...wrong, ...errorsIn(gateway.log)];
}

/** The lines of a log that tell of a failure of the gateway itself. */
export function errorsIn(log: readonly LogLine[]): string[] {
  return log
    .filter(
      (line) => line["level"] === "fatal" || (line["level"] === "error" && !isProviders(line)),
    )
    .slice(0, shownMax)
    .map((line) => `the log has: ${JSON.stringify(line)}`);
}

/** The errors that the log may contain about providers. */
const providersFaults = new Set([
  "the provider refuses the API key, the account or the country: run `tollgate check --live` to see why, fix it, then reload (SIGHUP) to use the provider again at once",
  "the provider answers 404: check its base_url and the model name of the route",
  "the provider reported an impossible usage: the gateway does not charge these figures",
]);

/** The causes of a provider's failure: any other cause is an error of the gateway. */
const providersErrors =
  /^(?:ApiError|UpstreamError(?: < (?:ReportedFailure|(?:Answer|ExcessiveAnswer|IsolatedFailure|Connection|SseEncoding|SseLimit)Error)\b.*)?)$/;

/** A request that failed by its providers, and not by the gateway itself. */
function isProviders({ msg, error }: LogLine): boolean {
  return msg === "request" ? providersErrors.test(String(error)) : providersFaults.has(msg);
}
