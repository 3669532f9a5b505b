import { InvalidArgumentError, type Command } from "commander";
import { localOrigin } from "../config/address.ts";
import { forgetProxyEnvironment, readListener } from "../config/load.ts";
import { parseDurationMs } from "../config/values.ts";
import { errorCode } from "../lib/systemError.ts";
import { CommandFailure, printResult } from "./cli/print.ts";
import { globalOptions } from "./cli/session.ts";

const TIMEOUT_DEFAULT = "3s";
const TIMEOUT_MS_MAX = 60_000;
/** The most bytes of an answer that are read. That of /healthz is shorter, but another program may answer. */
const ANSWER_BYTES_MAX = 1024;
/** The two problems that /healthz reports, as `contract/health.ts` writes them. */
const PROBLEM = /"status":"(draining|unavailable)"/;
/** Codes for an address or a unix socket without a listener, and for a missing unix socket. */
const NOTHING_LISTENS: readonly string[] = ["ECONNREFUSED", "ENOENT"];

/** Registers `tollgate healthcheck`. */
export function addHealthcheck(program: Command): void {
  program
    .command("healthcheck")
    .summary("ask the running gateway whether it serves; exit with 1 if not")
    .description(
      "Asks /healthz of the gateway at server.listen of the config, for the health check of a container. It reads no secret and no database. It does not verify the gateway's certificate, because that is for another name.",
    )
    .option(
      "--timeout <duration>",
      `time limit for the answer; default: ${TIMEOUT_DEFAULT}`,
      timeout,
    )
    .action(async (options: { timeout?: number }, command: Command) => {
      const { config, json } = globalOptions(command);
      await checkHealth(readListener(config), options.timeout ?? timeout(TIMEOUT_DEFAULT), json);
    });
}

/** Milliseconds. */
function timeout(text: string): number {
  const durationMs = parseDurationMs(text) ?? 0;
  if (durationMs > 0 && durationMs <= TIMEOUT_MS_MAX) return durationMs;
  throw new InvalidArgumentError("Write a duration such as 3s or 500ms, up to 1m.");
}

type Listener = ReturnType<typeof readListener>;

/** Prints the result. Throws CommandFailure if the gateway does not serve. */
async function checkHealth(listener: Listener, timeoutMs: number, asJson: boolean): Promise<void> {
  const { listen } = listener;
  if (listen.kind === "tcp" && listen.port === 0)
    throw new CommandFailure(
      "server.listen has port 0, so the gateway chooses a port that this command does not know: set a port",
    );
  const address = listen.kind === "unix" ? listen.path : originOf(listener);
  const problem = await problemOf(listener, address, timeoutMs);
  const document = { ok: problem === undefined, address, problem: problem ?? null };
  if (problem === undefined || asJson)
    printResult({ document, text: () => `the gateway at ${address} serves` }, asJson);
  if (problem !== undefined) throw new CommandFailure(problem);
}

/** Why the gateway does not serve, in one line; undefined if it serves. */
async function problemOf(
  listener: Listener,
  address: string,
  timeoutMs: number,
): Promise<string | undefined> {
  try {
    const { status, text } = await ask(listener, timeoutMs);
    return status === 200 ? undefined : answeredProblem(address, status, text);
  } catch (error) {
    if (error instanceof Error && error.name === "TimeoutError")
      return `the gateway at ${address} did not answer within ${timeoutMs / 1000} s`;
    const code = errorCode(error) ?? "unknown";
    return NOTHING_LISTENS.includes(code)
      ? `nothing listens at ${address}: the gateway does not run, or it is still starting`
      : `the gateway at ${address} could not be asked (${code}): check server.listen and tls_cert of [server]`;
  }
}

function answeredProblem(address: string, status: number, text: string): string {
  const [, problem] = PROBLEM.exec(text) ?? [];
  if (problem === undefined)
    return `the answer from ${address} has status ${status}: check that it is the gateway that listens there`;
  const reason =
    problem === "draining" ? "it is stopping" : "it cannot use its database; see its log";
  return `the gateway at ${address} answers ${status} ${problem}: ${reason}`;
}

interface Answer {
  readonly status: number;
  /** The beginning of the body. */
  readonly text: string;
}

/** `fetch` suffices here: one request to this machine, and then the process ends. */
async function ask(listener: Listener, timeoutMs: number): Promise<Answer> {
  const { listen, isSecure } = listener;
  forgetProxyEnvironment();
  const response = await fetch(`${originOf(listener)}/healthz`, {
    ...(listen.kind === "unix" && { unix: listen.path }),
    ...(isSecure && { tls: { rejectUnauthorized: false } }),
    redirect: "manual",
    signal: AbortSignal.timeout(timeoutMs),
  });
  return { status: response.status, text: await beginningOf(response) };
}

function originOf({ listen, isSecure }: Listener): string {
  return localOrigin(listen, isSecure ? "https" : "http");
}

async function beginningOf(response: Response): Promise<string> {
  let text = "";
  const body: AsyncIterable<Uint8Array> | undefined = response.body ?? undefined;
  for await (const bytes of body ?? []) {
    text += Buffer.from(bytes).toString("latin1");
    if (text.length > ANSWER_BYTES_MAX) break;
  }
  return text;
}
