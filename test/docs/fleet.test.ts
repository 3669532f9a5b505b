import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { cp, mkdtemp, readdir, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { loadConfig } from "../../src/config/load.ts";

interface Service {
  readonly image: string;
  readonly build?: { readonly context: string; readonly dockerfile: string };
  readonly volumes?: readonly string[];
  readonly environment?: Readonly<Record<string, string>>;
  readonly secrets?: readonly string[];
  readonly networks: Readonly<Record<string, { readonly ipv4_address?: string }>>;
  readonly stop_grace_period?: string;
  readonly healthcheck?: { readonly test: readonly string[] };
}

const files = join(import.meta.dir, "../../docs/fleet");
const text = (name: string) => Bun.file(join(files, name)).text();
const compose = Bun.YAML.parse(await text("compose.yaml")) as {
  readonly services: Readonly<Record<string, Service>>;
  readonly secrets: Readonly<Record<string, { readonly file: string }>>;
};
const { services } = compose;
const replicas = Object.keys(services).filter((name) => name.startsWith("tollgate-"));

let folder: string;
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), "tollgate-fleet-"));
});
afterAll(() => rm(folder, { recursive: true }));

/** Runs the commands of the page that make the secrets, and loads the config with them. */
async function loaded(): Promise<ReturnType<typeof loadConfig>> {
  const step =
    /```sh\n([^`]*openssl[^`]*)```/.exec(await text("../run/fleet-on-one-machine.md"))?.[1] ??
    "exit 1";
  await cp(join(files, ".env.example"), join(folder, ".env.example"));
  const done = Bun.spawnSync(["sh", "-e", "-c", step], {
    cwd: folder,
    env: { ...process.env, OPENAI_API_KEY: "sk-test" },
  });
  expect(done.stderr.toString()).toBe("");
  const config = (await text("tollgate.toml")).replaceAll("/run/secrets/", "secrets/");
  await writeFile(join(folder, "tollgate.toml"), config);
  return loadConfig({ path: join(folder, "tollgate.toml") });
}

describe.skipIf(Bun.which("openssl") === null)("docs/fleet", () => {
  test("has a config that loads with the secrets of its page", async () => {
    const { config, warnings } = await loaded();
    // Caddy is in front, and the metrics are reached in the network of the containers only.
    expect(warnings.map((line) => line.split(":")[0])).toEqual(["server.listen", "metrics.listen"]);
    expect(config.database).toMatchObject({
      engine: "postgres",
      shownUrl: "postgres://tollgate@postgres:5432/tollgate",
    });
    expect(config.limits.redis?.shownUrl).toBe("redis://valkey:6379");
    expect(services["postgres"]?.environment).toMatchObject({
      POSTGRES_USER: "tollgate",
      POSTGRES_DB: "tollgate",
    });
    expect(config.providers[0]?.apiKey).toBe("sk-test");
    const made = (await readdir(join(folder, "secrets"))).map((name) => `secrets/${name}`);
    expect(made.toSorted()).toEqual(
      Object.values(compose.secrets)
        .map(({ file }) => file)
        .toSorted(),
    );
    const cache = await Bun.file(join(folder, "secrets/valkey.conf")).text();
    const password = new URL(config.limits.redis?.url ?? "").password;
    expect(cache).toBe(`requirepass ${password}\n`);
  });

  test("has a Caddyfile and a compose file that agree with the config", async () => {
    const { config } = await loaded();
    const { listen } = config.server;
    const port = listen.kind === "tcp" ? listen.port : 0;
    const [, upstreams] = /reverse_proxy ([^{]*) \{/.exec(await text("Caddyfile")) ?? [];
    expect(replicas).toHaveLength(2);
    expect(upstreams?.split(" ")).toEqual(replicas.map((name) => `${name}:${port}`));
    const caddy = services["caddy"]?.networks["fleet"]?.ipv4_address;
    expect(config.limits.trustedProxies).toEqual([
      { bytes: (caddy ?? "").split(".").map(Number), prefix: 32 },
    ]);
    for (const name of replicas) {
      const service = services[name];
      const graceMs = Number.parseInt(service?.stop_grace_period ?? "0") * 1000;
      const { drainDelayMs, shutdownGraceMs } = config.server;
      expect(graceMs).toBeGreaterThanOrEqual(drainDelayMs + shutdownGraceMs + 30_000);
      expect(service?.healthcheck?.test).toEqual(["CMD", "tollgate", "healthcheck"]);
      const { context = "", dockerfile = "" } = service?.build ?? {};
      const image = await Bun.file(join(files, context, dockerfile)).text();
      const [, configFile] = /\bTOLLGATE_CONFIG=(\S+)/.exec(image) ?? [];
      expect(service?.volumes).toEqual([`./tollgate.toml:${configFile}:ro`]);
      for (const secret of service?.secrets ?? []) expect(compose.secrets).toHaveProperty(secret);
    }
  });
});

test("docs/fleet has no password in its compose file", () => {
  for (const { environment = {} } of Object.values(services))
    for (const [name, value] of Object.entries(environment))
      if (/PASSWORD|KEY|URL/.test(name)) expect(value).toMatch(/^\/run\/secrets\//);
});
