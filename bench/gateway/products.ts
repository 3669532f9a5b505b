// The gateways of others. Portkey's installs from npm. The others are named by a path: --busbar, --litellm.
import { mkdirSync } from "node:fs";
import { join, resolve } from "node:path";
import { freePort, models, untilAnswers, type Contestant, type Ground } from "./contestants.ts";
import { spawn } from "./processes.ts";

const path = process.env["PATH"] ?? "";

/** Portkey's gateway on Node; it is installed here first, from the lockfile beside its package.json. */
export async function startPortkey(node: string, ground: Ground): Promise<Contestant> {
  const home = resolve(import.meta.dir, "../portkey");
  const install = Bun.spawnSync([process.execPath, "install", "--frozen-lockfile"], { cwd: home });
  if (!install.success) throw new Error(`it could not be installed: ${install.stderr.toString()}`);
  const port = freePort();
  const entry = join(home, "node_modules/@portkey-ai/gateway/build/start-server.js");
  const logFile = join(ground.folder, "portkey.log");
  const child = spawn([node, entry, `--port=${port}`, "--headless"], {
    logFile,
    env: { PATH: path, NODE_ENV: "production" },
  });
  await untilAnswers("portkey", child, port, logFile);
  const headers = [
    "Authorization: Bearer none",
    "x-portkey-provider: openai",
    `x-portkey-custom-host: http://127.0.0.1:${ground.provider.port}/v1`,
    "",
  ].join("\r\n");
  return { name: "portkey", child, port, secure: undefined, headers, manyHeaders: [] };
}

/** Micro-units of money, and how many there are: more than all runs cost together. */
const BUSBAR_BUDGET = 1_000_000_000_000;
const MINT_MS_MAX = 15_000;

/**
 * Busbar with what it has of accounts: a signed key, a group with a budget, prices of all models. Its books are in memory, which
 * is its default; a file needs a plugin. It has as many threads as there are cores.
 */
export async function startBusbar(binary: string, ground: Ground): Promise<Contestant> {
  const folder = join(ground.folder, "busbar");
  mkdirSync(folder);
  const [port, adminPort] = [freePort(), freePort()];
  const env = {
    PATH: path,
    BUSBAR_CONFIG: join(folder, "config.yaml"),
    ADMIN: "admin",
    KEY: "none",
  };
  const generated = Bun.spawnSync([binary, "--generate-signing-key"], { cwd: folder, env });
  if (!generated.success) throw new Error(`no signing key: ${generated.stderr.toString()}`);
  await Bun.write(join(folder, "signing.key"), generated.stdout, { mode: 0o600 });
  const catalogue = `bench: { protocol: openai, base_url: "http://127.0.0.1:${ground.provider.port}" }\n`;
  await Bun.write(join(folder, "providers.yaml"), catalogue);
  await Bun.write(env.BUSBAR_CONFIG, busbarConfig(folder, port, adminPort));
  const logFile = join(folder, "busbar.log");
  const child = spawn([binary], { logFile, env });
  await untilAnswers("busbar", child, port, logFile);
  const minted = await fetch(`http://127.0.0.1:${adminPort}/api/v1/admin/keys`, {
    method: "POST",
    headers: { authorization: "Bearer admin", "content-type": "application/json" },
    body: JSON.stringify({ name: "bench", group: "bench" }),
    signal: AbortSignal.timeout(MINT_MS_MAX),
  });
  const { token, key = token } = (await minted.json()) as { token?: string; key?: string };
  if (key === undefined) throw new Error(`no key: ${minted.status}`);
  const headers = `Authorization: Bearer ${key}\r\n`;
  return { name: "busbar", child, port, secure: undefined, headers, manyHeaders: [] };
}

function busbarConfig(folder: string, port: number, adminPort: number): string {
  const rows = (line: (model: string) => string): string => models.map(line).join("\n");
  return `
listen: "127.0.0.1:${port}"
admin_listen: "127.0.0.1:${adminPort}"
providers_file: ${folder}/providers.yaml
identity-providers:
  admin-tokens: { module: admin-tokens, token: { env: ADMIN } }
auth:
  chain: [keys]
  admin_auth: [admin-tokens]
  signing_key: { file: ${folder}/signing.key }
providers:
  bench: { api_key: { env: KEY } }
models:
${rows((model) => `  ${model}: { provider: bench }`)}
groups:
  bench:
    limits: [{ budget: ${BUSBAR_BUDGET}, per: month }]
rate_card:
${rows((model) => `  ${model}: { input_utok: 3, output_utok: 15 }`)}
`;
}

/** LiteLLM's proxy, one worker, with a key for all: its accounts need a PostgreSQL server. */
export async function startLitellm(binary: string, ground: Ground): Promise<Contestant> {
  const folder = join(ground.folder, "litellm");
  mkdirSync(folder);
  const port = freePort();
  const config = join(folder, "config.yaml");
  const base = `http://127.0.0.1:${ground.provider.port}/v1`;
  const rows = models.map(
    (model) => `  - model_name: ${model}
    litellm_params: { model: openai/${model}, api_base: "${base}", api_key: none }`,
  );
  await Bun.write(
    config,
    `model_list:\n${rows.join("\n")}\ngeneral_settings: { master_key: sk-bench }\n`,
  );
  const logFile = join(folder, "litellm.log");
  const words = [binary, "--config", config, "--host", "127.0.0.1", "--port", String(port)];
  const env = {
    PATH: path,
    HOME: folder,
    LITELLM_LOCAL_MODEL_COST_MAP: "True",
    LITELLM_TELEMETRY: "False",
  };
  const child = spawn(words, { logFile, env });
  await untilAnswers("litellm", child, port, logFile);
  const headers = "Authorization: Bearer sk-bench\r\n";
  return { name: "litellm", child, port, secure: undefined, headers, manyHeaders: [] };
}
