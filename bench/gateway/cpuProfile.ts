/** A profile as `bun --cpu-prof` writes it; times are microseconds. */
export interface CpuProfile {
  readonly nodes: readonly ProfileNode[];
  /** The node that ran at each sample, and how long after the sample before. */
  readonly samples: readonly number[];
  readonly timeDeltas: readonly number[];
}

interface ProfileNode {
  readonly id: number;
  readonly callFrame: {
    readonly functionName: string;
    readonly url: string;
    readonly lineNumber: number;
  };
  readonly children?: readonly number[];
}

/** What a function took by itself, with the native code that it called. */
export interface Spent {
  readonly area: string;
  readonly name: string;
  readonly place: string;
  readonly us: number;
}

/** Where code belongs, by its path; the first that fits. */
const areas: readonly (readonly [string, RegExp])[] = [
  ["log and metrics", /\/src\/(?:telemetry\/|http\/requestLog)/],
  ["SSE decoder", /\/src\/(?:lib\/sse|gateway\/decoding\/)/],
  ["answer and its writing", /\/src\/(?:http\/(?:response|streamBody)|gateway\/streaming\/)/],
  ["JSON scan", /\/src\/lib\/(?:json|untrustedJson|splice)/],
  ["check of the body", /\/src\/contract\/|typebox/],
  ["keys and the change counter", /\/src\/(?:auth|store\/tables)\/|\/drizzle-orm\//],
  ["money and messages to the writer", /\/src\/(?:billing|store\/writer)\//],
  ["client of the providers", /\/src\/providers\//],
  ["HTTP server", /\/src\/(?:http|limits)\/|\/elysia\/|\/@elysiajs\//],
  ["the gateway's own path", /\/src\//],
];

/** Self times of functions, most first, without what was before `fromUs`. Native code counts for its caller. */
export function selfTimes(profile: CpuProfile, fromUs: number): Spent[] {
  const nodes = new Map(profile.nodes.map((node) => [node.id, node]));
  const parents = new Map(
    profile.nodes.flatMap(({ id, children = [] }) => children.map((child) => [child, id] as const)),
  );
  const byName = new Map<string, { -readonly [Field in keyof Spent]: Spent[Field] }>();
  let atUs = 0;
  profile.samples.forEach((sample, index) => {
    const us = Math.max(0, profile.timeDeltas[index] ?? 0);
    atUs += us;
    if (atUs < fromUs) return;
    const native: string[] = [];
    let node = nodes.get(sample);
    while (node && !areaOf(node)) {
      if (node.callFrame.functionName !== "") native.unshift(node.callFrame.functionName);
      node = nodes.get(parents.get(node.id) ?? -1);
    }
    const area = (node && areaOf(node)) ?? "the rest: collection of garbage, event loop, idle";
    const name = [node?.callFrame.functionName || "(unnamed)", ...native.slice(-1)].join(" > ");
    const place = node ? `${shortPath(node.callFrame.url)}:${node.callFrame.lineNumber + 1}` : "";
    const key = `${name} ${place}`;
    const known = byName.get(key);
    if (known) known.us += us;
    else byName.set(key, { area, name, place, us });
  });
  return [...byName.values()].toSorted((a, b) => b.us - a.us);
}

function areaOf({ callFrame: { url, functionName } }: ProfileNode): string | undefined {
  if (url === "") return undefined;
  return areas.find(([, pattern]) => pattern.test(`${url} ${functionName}`))?.[0];
}

function shortPath(url: string): string {
  return url.replace(/^.*\/node_modules\//, "").replace(/^.*\/(?=src\/)/, "");
}
