import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { loadConfig } from "../../src/config/load.ts";
import type { Config } from "../../src/config/schema.ts";

const files = join(import.meta.dir, "../../docs/fleet/kubernetes");
const text = (name: string) => Bun.file(join(files, name)).text();
const yaml = async (name: string) => Bun.YAML.parse(await text(name)) as Manifest;

interface Mount {
  readonly name: string;
  readonly mountPath: string;
}
interface PodSpec {
  readonly terminationGracePeriodSeconds: number;
  readonly topologySpreadConstraints: readonly { readonly topologyKey: string }[];
  readonly securityContext: Readonly<Record<string, unknown>>;
  readonly containers: readonly [
    {
      readonly image: string;
      readonly args?: readonly string[];
      readonly lifecycle?: unknown;
      readonly readinessProbe: { readonly httpGet: { readonly path: string } };
      readonly livenessProbe: { readonly httpGet: { readonly path: string } };
      readonly securityContext: unknown;
      readonly volumeMounts: readonly Mount[];
    },
  ];
  readonly volumes: readonly { readonly name: string }[];
}
interface Manifest {
  readonly kind: string;
  readonly data?: Readonly<Record<string, string>>;
  readonly stringData?: Readonly<Record<string, string>>;
  readonly spec: {
    readonly replicas: number;
    readonly maxUnavailable: number;
    readonly selector: { readonly matchLabels: object };
    readonly template: { readonly metadata: { readonly labels: object }; readonly spec: PodSpec };
  };
}

let folder: string;
let config: Config;
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), "tollgate-kubernetes-"));
  const secrets = { ...(await yaml("secret.yaml")).stringData, openai_api_key: "sk-test" };
  for (const [name, value] of Object.entries(secrets)) await writeFile(join(folder, name), value);
  const file = join(folder, "config.toml");
  await writeFile(file, (await text("tollgate.toml")).replaceAll("/run/secrets", folder));
  ({ config } = loadConfig({ path: file }));
});
afterAll(() => rm(folder, { recursive: true }));

test("docs/fleet/kubernetes has a config that loads with its secrets", () => {
  expect(config.database).toMatchObject({ engine: "postgres" });
  expect(config.limits.redis).toBeDefined();
});

test("docs/fleet/kubernetes has a job that migrates the schema as the replicas would", async () => {
  const [{ args }] = (await yaml("migration.yaml")).spec.template.spec.containers;
  expect(args).toEqual(["migrate-schema"]);
});

const kubectl = Bun.which("kubectl");
if (kubectl === null)
  process.stderr.write(
    "NOT RUN: the tests with kubectl: install it to build docs/fleet/kubernetes\n",
  );

describe.skipIf(kubectl === null)("docs/fleet/kubernetes, as kubectl builds it,", () => {
  let built: readonly Manifest[];
  beforeAll(() => {
    const { stdout, stderr } = Bun.spawnSync([kubectl ?? "", "kustomize", files]);
    expect(stderr.toString()).toBe("");
    built = stdout
      .toString()
      .split(/^---$/m)
      .map((one) => Bun.YAML.parse(one) as Manifest);
  });
  const manifest = (kind: string): Manifest => {
    const found = built.find((one) => one.kind === kind);
    if (found === undefined) throw new Error(`it has no ${kind}`);
    return found;
  };

  test("is a Deployment without volumes of its own, a budget and what the base has", async () => {
    expect(built.map(({ kind }) => kind).toSorted()).toEqual([
      "ConfigMap",
      "Deployment",
      "PodDisruptionBudget",
      "Secret",
      "Service",
    ]);
    expect(manifest("ConfigMap").data).toEqual({ "config.toml": await text("tollgate.toml") });
    expect(Object.keys(manifest("Secret").stringData ?? {}).toSorted()).toEqual([
      "database_url",
      "openai_api_key",
      "redis_url",
    ]);
    const { spec } = manifest("Deployment").spec.template;
    const mounted = spec.containers[0].volumeMounts.map(({ name }) => name);
    expect(mounted).toEqual(spec.volumes.map(({ name }) => name));
  });

  test("spreads its replicas, and lets one of them stop at a time", () => {
    const { replicas, template } = manifest("Deployment").spec;
    expect(replicas).toBe(3);
    expect(template.spec.topologySpreadConstraints.map(({ topologyKey }) => topologyKey)).toEqual([
      "kubernetes.io/hostname",
      "topology.kubernetes.io/zone",
    ]);
    const budget = manifest("PodDisruptionBudget").spec;
    expect(budget.maxUnavailable).toBe(1);
    expect(budget.selector.matchLabels).toEqual(template.metadata.labels);
  });

  test("gives a replica its delay, its grace and 30 seconds more, and needs no preStop", () => {
    const { spec } = manifest("Deployment").spec.template;
    const { drainDelayMs, shutdownGraceMs } = config.server;
    expect(spec.terminationGracePeriodSeconds).toBe((drainDelayMs + shutdownGraceMs) / 1000 + 30);
    const [{ lifecycle, readinessProbe, livenessProbe }] = spec.containers;
    expect(lifecycle).toBeUndefined();
    expect([readinessProbe.httpGet.path, livenessProbe.httpGet.path]).toEqual([
      "/healthz",
      "/openapi.json",
    ]);
  });

  test("runs the migration with the same image, user, files and rights", async () => {
    const { spec } = manifest("Deployment").spec.template;
    const job = (await yaml("migration.yaml")).spec.template.spec;
    const [{ image, volumeMounts, securityContext }] = job.containers;
    const [replica] = spec.containers;
    expect({ image, volumeMounts, securityContext }).toEqual({
      image: replica.image,
      volumeMounts: replica.volumeMounts,
      securityContext: replica.securityContext,
    });
    const names = ({ volumes }: PodSpec) => volumes.map(({ name }) => name);
    expect(names(job)).toEqual(names(spec));
    expect(spec.securityContext).toMatchObject(job.securityContext);
  });
});
