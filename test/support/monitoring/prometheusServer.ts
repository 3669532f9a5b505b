import { mkdtemp } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { freePort, ServerProcess } from "../servers/serverProcess.ts";
import { alertsFile } from "./alertRules.ts";

const program = Bun.which("prometheus");
const checker = Bun.which("promtool");

/** Why this machine cannot run Prometheus and its checker; undefined if it can. */
export const prometheusMissing =
  program === null || checker === null
    ? "this machine has no prometheus and promtool (apt-get install prometheus)"
    : undefined;

/** Prometheus with the alert rules of docs/monitoring. It scrapes and evaluates each second. */
export interface PrometheusServer extends AsyncDisposable {
  /** The field `data` of an answer of https://prometheus.io/docs/prometheus/latest/querying/api/. Throws if it is an error. */
  ask(path: string, query?: Readonly<Record<string, string>>): Promise<unknown>;
}

/** Starts it. `targets` are the addresses, with port, of gateways in the scrape job `tollgate`. */
export async function startPrometheus(targets: readonly string[]): Promise<PrometheusServer> {
  const folder = await mkdtemp(join(tmpdir(), "tollgate-prometheus-"));
  const config = join(folder, "prometheus.yaml");
  const scrape = { job_name: "tollgate", static_configs: [{ targets }] };
  const everySecond = { scrape_interval: "1s", evaluation_interval: "1s" };
  // JSON is YAML too.
  await Bun.write(
    config,
    JSON.stringify({ global: everySecond, rule_files: [alertsFile], scrape_configs: [scrape] }),
  );
  const address = `127.0.0.1:${freePort()}`;
  const options = {
    "config.file": config,
    "storage.tsdb.path": join(folder, "data"),
    "web.listen-address": address,
    "log.level": "error",
  };
  const server = new ServerProcess({
    command: [
      program ?? "",
      ...Object.entries(options).map(([name, value]) => `--${name}=${value}`),
    ],
    folder,
    endSignal: "SIGTERM",
    isReady: () =>
      fetch(`http://${address}/-/ready`).then(
        ({ ok }) => ok,
        () => false,
      ),
  });
  await server.start();
  return {
    async ask(path, query = {}) {
      const answer = await fetch(
        `http://${address}${path}?${new URLSearchParams(query).toString()}`,
      );
      const text = await answer.text();
      if (!answer.ok) throw new Error(`${path} ${JSON.stringify(query)}: ${text}`);
      return (JSON.parse(text) as { readonly data: unknown }).data;
    },
    [Symbol.asyncDispose]: () => server.close(),
  };
}

/** The result of `promtool ARGUMENTS`: its exit status and all that it printed. */
export async function promtool(
  args: readonly string[],
  input = "",
): Promise<{ readonly status: number; readonly output: string }> {
  const child = Bun.spawn([checker ?? "", ...args], {
    stdin: Buffer.from(input),
    stdout: "pipe",
    stderr: "pipe",
  });
  const outputs = await Promise.all([
    new Response(child.stdout).text(),
    new Response(child.stderr).text(),
  ]);
  return { status: await child.exited, output: outputs.join("") };
}
