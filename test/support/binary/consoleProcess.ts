import type { SessionAnswer } from "../../../src/contract/operator/consoleState.ts";
import { binaryPath } from "./binary.ts";
import type { CliFolder } from "./cli.ts";

/** A running `tollgate console`. */
export interface ConsoleProcess {
  /** `http://127.0.0.1:PORT`; of a unix socket, the address on the forwarded port. */
  readonly url: string;
  /** The printed address, with the token. */
  readonly address: string;
  readonly token: string;
  /** What it listens on: the URL, or the path of a socket. */
  readonly listen: string;
  /** The exit status. */
  readonly ended: Promise<number>;
  /** Standard error; resolves at the end of the command. */
  readonly errors: Promise<string>;
  /** Ends it as Ctrl-C does. */
  stop(): Promise<void>;
}

/** Starts a console on a free port in the folder; `args` are further arguments. Resolves when it listens. */
export async function startConsole(
  cli: Pick<CliFolder, "folder" | "config">,
  args: readonly string[] = ["--listen", "127.0.0.1:0"],
): Promise<ConsoleProcess> {
  const child = Bun.spawn(
    [await binaryPath(), "console", "--json", "--config", cli.config, ...args],
    { cwd: cli.folder, stdin: "ignore", stdout: "pipe", stderr: "pipe" },
  );
  const errors = new Response(child.stderr).text();
  const { value } = await child.stdout.getReader().read();
  if (value === undefined) throw new Error(`the console did not start: ${await errors}`);
  const printed = JSON.parse(new TextDecoder().decode(value)) as {
    readonly address: string;
    readonly listen: string;
  };
  const [url = "", token = ""] = printed.address.split("/#token=");
  return {
    ...printed,
    url,
    token,
    ended: child.exited,
    errors,
    async stop() {
      child.kill("SIGINT");
      await child.exited;
    },
  };
}

/** Requests of a signed-in page. */
export interface ConsolePage {
  /** As the header of a request has it. */
  readonly cookie: string;
  /** The value of the header `x-tollgate-console`. */
  readonly pageSecret: string;
  get(path: string, headers?: Readonly<Record<string, string>>): Promise<Response>;
  post(path: string, body?: unknown): Promise<Response>;
}

/** Exchanges the token, as the page does. */
export async function signIn({ url, token }: ConsoleProcess): Promise<ConsolePage> {
  const own = { origin: url, "x-tollgate-console": "any" };
  const post = (path: string, body: unknown, headers: Readonly<Record<string, string>>) =>
    fetch(url + path, {
      method: "POST",
      headers: { ...own, ...headers, "content-type": "application/json" },
      body: JSON.stringify(body ?? {}),
    });
  const answer = await post("/api/session", { token }, {});
  const [cookie = ""] = (answer.headers.get("set-cookie") ?? "").split(";");
  if (!answer.ok) throw new Error(`the token was refused: ${await answer.text()}`);
  const { page_secret: pageSecret } = (await answer.json()) as SessionAnswer;
  const secrets = { cookie, "x-tollgate-console": pageSecret };
  return {
    cookie,
    pageSecret,
    get: (path, headers = {}) => fetch(url + path, { headers: { ...secrets, ...headers } }),
    post: (path, body) => post(path, body, secrets),
  };
}
