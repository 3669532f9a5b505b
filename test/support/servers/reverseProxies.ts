import { mkdtemp, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { freePort, ServerProcess } from "./serverProcess.ts";

const page = await Bun.file(join(import.meta.dir, "../../../docs/run/reverse-proxy.md")).text();

/** The code blocks of a section of the page, in its order. */
function blocksOf(section: string): readonly string[] {
  const text = page.split(`\n## ${section}\n`)[1]?.split("\n## ")[0] ?? "";
  return [...text.matchAll(/^```\w+\n(.*?)^```$/gms)].map(([, block = ""]) => block);
}

/** What differs between the page and a test. Each text must be in the page. */
type Changes = readonly (readonly [text: string, replacement: string])[];

function changed(block: string | undefined, changes: Changes): string {
  if (block === undefined) throw new Error("the page has no such settings");
  return changes.reduce((text, [from, to]) => {
    if (!text.includes(from)) throw new Error(`the page has no longer: ${from}`);
    return text.replaceAll(from, to);
  }, block);
}

/** Where a proxy of a test listens, what is behind it, and a folder for its files. */
interface Place {
  readonly port: number;
  /** One gateway, or the three of the section "Several gateways". */
  readonly gateways: readonly string[];
  readonly folder: string;
  /** The longest silence: `60s` on the page. */
  readonly silence: string;
}

/** The settings for one gateway, or the part of "Several gateways" that replaces them, with these gateways. */
function partFor(gateways: readonly string[], one: string | undefined, several: number): string {
  const [first = ""] = gateways;
  if (gateways.length === 1) return changed(one, [["127.0.0.1:8080", first]]);
  const addresses = gateways.map((gateway, at) => [`10.0.0.${at + 1}:8080`, gateway] as const);
  return changed(blocksOf("Several gateways")[several], addresses);
}

/** Only root can choose the user of the workers. */
const userOfNginx = process.getuid?.() === 0 ? "user root;" : "";

/** How a reverse proxy runs with its settings in docs/run/reverse-proxy.md. */
interface ProxyProgram {
  /** The section of the page. */
  readonly name: string;
  readonly program: string;
  readonly advice: string;
  /** Its files. TLS is left out. */
  filesOf(place: Place): Readonly<Record<string, string>>;
  argumentsOf(folder: string): readonly string[];
}

const programs: readonly ProxyProgram[] = [
  {
    name: "nginx",
    program: "nginx",
    advice: "`apt-get install nginx-light`",
    filesOf({ port, gateways, folder, silence }) {
      const paths = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"];
      const [upstream, rest] = blocksOf("nginx")[0]?.split(/(?<=^\}\n)/m) ?? [];
      const server = changed(rest, [
        ["listen 443 ssl http2;", `listen 127.0.0.1:${port};`],
        ["ssl_certificate /etc/ssl/llm.example.com.pem;", ""],
        ["ssl_certificate_key /etc/ssl/llm.example.com.key;", ""],
        ["proxy_read_timeout 60s;", `proxy_read_timeout ${silence};`],
      ]);
      return {
        "nginx.conf": `daemon off;
worker_processes 1;
pid ${folder}/pid;
error_log ${folder}/error.log;
events {}
http {
  access_log off;
  ${paths.map((name) => `${name}_temp_path ${folder}/${name};`).join("\n  ")}
  ${partFor(gateways, upstream, 0)}
  ${server}
}`,
      };
    },
    // A worker of another user could not write the body of a request into the folder.
    argumentsOf: (folder) => ["-c", `${folder}/nginx.conf`, "-p", folder, "-g", userOfNginx],
  },
  {
    name: "Caddy",
    program: "caddy",
    advice: "`apt-get install caddy`",
    filesOf: ({ port, gateways }) => ({
      Caddyfile: `{
	admin off
}
${changed(partFor(gateways, blocksOf("Caddy")[0], 1), [
  ["llm.example.com {", `http://:${port} {\n\tbind 127.0.0.1`],
])}`,
    }),
    argumentsOf: (folder) => ["run", "--adapter", "caddyfile", "--config", `${folder}/Caddyfile`],
  },
  {
    name: "HAProxy",
    program: "haproxy",
    advice: "`apt-get install haproxy`",
    filesOf({ port, gateways, silence }) {
      const [before, backend] = blocksOf("HAProxy")[0]?.split(/(?=^backend )/m) ?? [];
      const settings = changed(before, [
        [
          "bind :443 ssl crt /etc/haproxy/certs/llm.example.com.pem alpn h2,http/1.1",
          `bind 127.0.0.1:${port}`,
        ],
        ["timeout client 60s", `timeout client ${silence}`],
        ["timeout server 60s", `timeout server ${silence}`],
      ]);
      return { "haproxy.cfg": `${settings}${partFor(gateways, backend, 2)}` };
    },
    argumentsOf: (folder) => ["-db", "-f", `${folder}/haproxy.cfg`],
  },
  {
    name: "Traefik",
    program: "traefik",
    advice: "it is not in Debian: https://doc.traefik.io/traefik/getting-started/install-traefik/",
    filesOf({ port, gateways: [gateway = ""], folder }) {
      const [staticConfig, dynamicConfig] = blocksOf("Traefik");
      return {
        "traefik.yml": changed(staticConfig, [
          ['":443"', `"127.0.0.1:${port}"`],
          ["/etc/traefik/tollgate.yml", `${folder}/tollgate.yml`],
        ]),
        "tollgate.yml": changed(dynamicConfig, [
          ["Host(`llm.example.com`)", "PathPrefix(`/`)"],
          ["      tls: {}\n", ""],
          ["127.0.0.1:8080", gateway],
        ]),
      };
    },
    argumentsOf: (folder) => [`--configFile=${folder}/traefik.yml`],
  },
];

/** A reverse proxy that a test can start, with the settings of docs/run/reverse-proxy.md. */
export interface ReverseProxy {
  readonly name: string;
  /** Why it cannot be started here, and what to do. Undefined: it can. */
  readonly missing: string | undefined;
  /** Starts it in front of the gateways on these ports of 127.0.0.1: one or three. `silence` replaces the limit of the page. */
  start(gatewayPorts: readonly number[], silence?: string): Promise<StartedProxy>;
}

export interface StartedProxy extends AsyncDisposable {
  readonly port: number;
}

export const reverseProxies: readonly ReverseProxy[] = programs.map((program) => {
  const { name, advice } = program;
  const path = Bun.which(program.program);
  return {
    name,
    missing: path === null ? `install ${program.program}: ${advice}` : undefined,
    async start(gatewayPorts, silence = "60s") {
      if (path === null) throw new Error(`${program.program} is missing`);
      const folder = await mkdtemp(join(tmpdir(), `tollgate-${program.program}-`));
      const port = freePort();
      const gateways = gatewayPorts.map((gatewayPort) => `127.0.0.1:${gatewayPort}`);
      const files = program.filesOf({ port, gateways, folder, silence });
      for (const [file, text] of Object.entries(files)) await writeFile(join(folder, file), text);
      const server = new ServerProcess({
        command: [path, ...program.argumentsOf(folder)],
        folder,
        endSignal: "SIGTERM",
        isReady: () => serves(port),
      });
      await server.start();
      return { port, [Symbol.asyncDispose]: () => server.close() };
    },
  };
});

async function serves(port: number): Promise<boolean> {
  try {
    return (await fetch(`http://127.0.0.1:${port}/healthz`)).ok;
  } catch {
    return false;
  }
}
