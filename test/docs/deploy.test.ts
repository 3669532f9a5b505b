import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { copyFile, mkdtemp, readdir, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { loadConfig } from "../../src/config/load.ts";
import type { Config } from "../../src/config/schema.ts";
import { call, chat } from "../support/gateway/chatCalls.ts";
import { openOneModelBefore } from "../support/gateway/gatewayUnderTest.ts";
import { usual } from "../support/provider/chatAnswers.ts";
import { fillStore } from "../support/store/fullStore.ts";
import { describeSqlite } from "../support/testedEngines.ts";
import { until } from "../support/until.ts";

const files = join(import.meta.dir, "../../docs/deploy");
const text = (name: string) => Bun.file(join(files, name)).text();

interface Mount {
  readonly name: string;
  readonly mountPath: string;
}
interface Probe {
  readonly httpGet: { readonly path: string; readonly port: string };
}
interface PodSpec {
  readonly terminationGracePeriodSeconds: number;
  readonly securityContext: Readonly<Record<string, unknown>>;
  readonly containers: readonly [
    {
      readonly image: string;
      readonly ports: readonly { readonly name: string; readonly containerPort: number }[];
      readonly volumeMounts: readonly Mount[];
      readonly startupProbe: Probe;
      readonly livenessProbe: Probe;
      readonly readinessProbe: Probe;
      readonly securityContext: Readonly<Record<string, unknown>>;
    },
  ];
  readonly volumes: readonly Readonly<Record<string, unknown>>[];
}
interface StatefulSet {
  readonly kind: "StatefulSet";
  readonly metadata: { readonly name: string };
  readonly spec: {
    readonly replicas: number;
    readonly template: { readonly spec: PodSpec };
    readonly volumeClaimTemplates: readonly { readonly metadata: { readonly name: string } }[];
  };
}
type Manifest =
  | StatefulSet
  | { readonly kind: "ConfigMap"; readonly data: Readonly<Record<string, string>> }
  | { readonly kind: "Secret"; readonly stringData: Readonly<Record<string, string>> }
  | {
      readonly kind: "Service";
      readonly spec: { readonly ports: readonly { readonly targetPort: string }[] };
    };

const readme = await text("../run/container.md");
const manifestText = await text("kubernetes.yaml");
const manifests = Bun.YAML.parse(manifestText) as readonly Manifest[];
const pod = manifest("StatefulSet").spec.template.spec;
const [container] = pod.containers;

const compose = Bun.YAML.parse(await text("compose.yaml")) as {
  readonly services: {
    readonly tollgate: {
      readonly image: string;
      readonly ports: readonly string[];
      readonly volumes: readonly string[];
      readonly secrets: readonly string[];
      readonly stop_grace_period: string;
      readonly healthcheck: { readonly test: readonly string[] };
    };
  };
  readonly secrets: Readonly<Record<string, { readonly file: string }>>;
};
const service = compose.services.tollgate;

const dockerfile = await text("Dockerfile");

/** The text after an instruction of the Dockerfile. The last one counts. */
function instruction(name: string): string {
  const all = dockerfile.matchAll(new RegExp(`^${name} ((?:.*\\\\\\n)*.*)$`, "gm")).toArray();
  return all.at(-1)?.[1] ?? "";
}

/** The value of an environment variable of the image. */
function variable(name: string): string {
  return new RegExp(`\\b${name}=(\\S+)`).exec(instruction("ENV"))?.[1] ?? "";
}

function manifest<Kind extends Manifest["kind"]>(kind: Kind): Extract<Manifest, { kind: Kind }> {
  const isOfKind = (one: Manifest): one is Extract<Manifest, { kind: Kind }> => one.kind === kind;
  const found = manifests.find(isOfKind);
  if (found === undefined) throw new Error(`kubernetes.yaml has no ${kind}`);
  return found;
}

/** The only code block of the page that contains `part`. */
function block(part: string): string {
  const found = readme
    .matchAll(/^ *```(?:sh|yaml)\n([^`]*)^ *```/gm)
    .map(([, body = ""]) => body)
    .filter((body) => body.includes(part))
    .toArray();
  expect(found).toHaveLength(1);
  return found[0] ?? "";
}

let folder: string;
let config: Config;
let secretFile: string;
let warnings: readonly string[];
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), "tollgate-deploy-"));
  await copyFile(join(files, ".env.example"), join(folder, ".env.example"));
  const step = Bun.spawnSync(["sh", "-e", "-c", block("> secrets/")], {
    cwd: folder,
    env: { ...process.env, OPENAI_API_KEY: "sk-test" },
  });
  expect(step.stderr.toString()).toBe("");
  const toml = await text("tollgate.toml");
  secretFile = /^api_key_file = "(.*)"$/m.exec(toml)?.[1] ?? "";
  const file = join(folder, "config.toml");
  await writeFile(file, toml.replace(dirname(secretFile), join(folder, "secrets")));
  ({ config, warnings } = loadConfig({ path: file }));
});
afterAll(() => rm(folder, { recursive: true }));

describe("docs/deploy", () => {
  test("has a config that loads with the secrets of its page", async () => {
    // A proxy with TLS is in front.
    expect(warnings.map((line) => line.split(":")[0])).toEqual(["server.listen"]);
    expect(config.providers[0]?.apiKey).toBe("sk-test");
    const made = await readdir(join(folder, "secrets"));
    expect(made).toEqual(Object.keys(compose.secrets));
    expect(service.secrets).toEqual(made);
    expect(Object.values(compose.secrets).map((one) => one.file)).toEqual(
      made.map((name) => `secrets/${name}`),
    );
    expect(Object.keys(manifest("Secret").stringData)).toEqual(made);
    expect(secretFile).toBe(`/run/secrets/${made[0]}`);
    expect(block("kubectl create secret")).toContain(`--from-literal=${made[0]}=`);
  });

  test("has the same config in the ConfigMap", async () => {
    expect(manifest("ConfigMap").data).toEqual({ "config.toml": await text("tollgate.toml") });
  });

  test("has the same user everywhere", () => {
    const [uid, gid] = instruction("USER").split(":").map(Number);
    expect(uid).toBeGreaterThan(0);
    const owner = { runAsNonRoot: true, runAsUser: uid, runAsGroup: gid, fsGroup: gid };
    expect(pod.securityContext).toMatchObject(owner);
    expect(dockerfile).toContain(`'tollgate:x:${uid}:${gid}::`);
    expect(dockerfile).toContain(`--chown=${uid}:${gid} `);
    expect(block("sudo install")).toContain(`-o ${uid} -g ${gid} backups`);
    expect(Bun.YAML.parse(block("kind: Pod"))).toMatchObject({ spec: { securityContext: owner } });
  });

  test("has the same ports everywhere", async () => {
    const { listen } = config.server;
    const port = listen.kind === "tcp" ? listen.port : 0;
    expect(instruction("EXPOSE")).toBe(String(port));
    expect(service.ports).toEqual([`127.0.0.1:${port}:${port}`]);
    expect(container.ports).toEqual([{ name: "http", containerPort: port }]);
    expect(manifest("Service").spec.ports).toMatchObject([{ port, targetPort: "http" }]);
    const [, metricsPort] =
      /^#listen = "0\.0\.0\.0:(\d+)"$/m.exec(await text("tollgate.toml")) ?? [];
    expect(manifestText).toContain(`#  prometheus.io/port: "${metricsPort}"\n`);
  });

  test("has the same paths everywhere", () => {
    const data = instruction("VOLUME");
    expect(config.database).toMatchObject({ engine: "sqlite", path: join(data, "tollgate.db") });
    expect(instruction("WORKDIR")).toBe(data);
    expect(variable("SQLITE_TMPDIR")).toBe(data);
    expect(dockerfile).toContain(` ${data}/\n`);
    const configFile = variable("TOLLGATE_CONFIG");
    expect(service.volumes).toEqual([
      `./tollgate.toml:${configFile}:ro`,
      `data:${data}`,
      "./backups:/backups",
    ]);
    const mounts = Object.fromEntries(
      container.volumeMounts.map(({ name, mountPath }) => [name, mountPath]),
    );
    expect(mounts).toEqual({
      config: dirname(configFile),
      secrets: dirname(secretFile),
      data,
      backups: "/backups",
    });
    const { secrets: _secrets, ...restored } = mounts;
    const restore = Bun.YAML.parse(block("kind: Pod")) as { readonly spec: PodSpec };
    const [{ volumeMounts, image }] = restore.spec.containers;
    expect(Object.fromEntries(volumeMounts.map((one) => [one.name, one.mountPath]))).toEqual(
      restored,
    );
    expect(image).toBe(container.image);
    const { metadata, spec } = manifest("StatefulSet");
    const claims = spec.volumeClaimTemplates.map((one) => one.metadata.name);
    expect(claims).toEqual(["data", "backups"]);
    for (const name of claims)
      expect(restore.spec.volumes).toContainEqual({
        name,
        persistentVolumeClaim: { claimName: `${name}-${metadata.name}-0` },
      });
  });

  test("has the same tag of the image everywhere", async () => {
    const [, tag = ""] = /^TOLLGATE_TAG=(.+)$/m.exec(await text(".env.example")) ?? [];
    expect(service.image).toStartWith("tollgate:${TOLLGATE_TAG:?");
    expect(container.image).toEndWith(`/tollgate:${tag}`);
    expect(block("docker build")).toContain(
      `-t tollgate:${tag} -f Dockerfile --build-arg VERSION=${tag} `,
    );
  });

  test("gives the gateway its delay, its grace and 30 seconds more", () => {
    const seconds = (config.server.drainDelayMs + config.server.shutdownGraceMs) / 1000 + 30;
    expect(service.stop_grace_period).toBe(`${seconds}s`);
    expect(pod.terminationGracePeriodSeconds).toBe(seconds);
    expect(readme).toContain(`--stop-timeout ${seconds}\``);
  });

  test("has one gateway on the SQLite file, which cannot write elsewhere", () => {
    expect(manifest("StatefulSet").spec.replicas).toBe(1);
    expect(container.securityContext).toEqual({
      allowPrivilegeEscalation: false,
      readOnlyRootFilesystem: true,
      capabilities: { drop: ["ALL"] },
    });
    expect(service).toMatchObject({
      read_only: true,
      cap_drop: ["ALL"],
      security_opt: ["no-new-privileges:true"],
    });
  });

  test("asks for the health with a command of the image, and gives no secret in the environment", () => {
    const [command, check] = service.healthcheck.test.slice(1);
    expect(instruction("HEALTHCHECK")).toEndWith(`CMD ["${command}", "${check}"]`);
    expect(instruction("ENTRYPOINT")).toBe(`["${command}"]`);
    expect(service).not.toHaveProperty("environment");
    expect(container).not.toHaveProperty("env");
  });
});

describeSqlite("the probes of docs/deploy/kubernetes.yaml", () => {
  const at = openOneModelBefore();
  const statuses = async () => {
    const { startupProbe, livenessProbe, readinessProbe } = container;
    const paths = [startupProbe, livenessProbe, readinessProbe].map(({ httpGet }) => httpGet.path);
    const replies = await Promise.all(paths.map((path) => call(at.gateway, undefined, { path })));
    return replies.map(({ status }) => status);
  };

  test("restart nothing because of a full disk, and give it no requests", async () => {
    expect(await statuses()).toEqual([200, 200, 200]);
    at.provider.answer = usual;
    const key = await at.gateway.key({ balance: 100_000_000_000n });
    const makeRoom = fillStore(at.gateway.path);
    try {
      expect((await chat(at.gateway, key)).status).toBe(502);
      expect(await statuses()).toEqual([200, 200, 503]);
    } finally {
      makeRoom();
    }
    await chat(at.gateway, key);
    const { writer } = at.gateway.app.gateway;
    await until("the writer has found room", () => writer.blockedBy === undefined);
    expect(await statuses()).toEqual([200, 200, 200]);
  });

  test("give no requests to a gateway that stops", async () => {
    at.gateway.app.phase = "refusing";
    expect(await statuses()).toEqual([200, 200, 503]);
    at.gateway.app.phase = "serving";
  });
});
