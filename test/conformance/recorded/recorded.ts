import { readdirSync } from "node:fs";
import { join } from "node:path";

/** A request as a program sent it. Long texts are cut; every field, type of block and word of a schema is kept. */
export interface RecordedRequest {
  readonly client: string;
  readonly name: string;
  readonly path: "/v1/chat/completions" | "/v1/responses" | "/v1/messages";
  readonly headers: Readonly<Record<string, string>>;
  readonly body: Readonly<Record<string, unknown>>;
}

interface RecordedFile {
  readonly client: string;
  readonly version: string;
  readonly requests: readonly StoredRequest[];
}

/** A request as its file has it: whole, or what differs from an earlier request to the same path. */
type StoredRequest = Pick<RecordedRequest, "name" | "path"> & {
  /** The name of the earlier request. */
  readonly like?: string;
  /** Members of the earlier request that this one does not have. */
  readonly without?: readonly string[];
  /** What follows in the lists of the earlier request. */
  readonly then?: Readonly<Record<string, readonly unknown[]>>;
  /** The members that the earlier request does not have, or has with another value. */
  readonly body?: RecordedRequest["body"];
  /** Without them the headers are those of the earlier request. */
  readonly headers?: RecordedRequest["headers"];
};

/** All that the programs sent, in the order of their files. */
export async function recordedRequests(): Promise<readonly RecordedRequest[]> {
  const names = readdirSync(import.meta.dir).filter((name) => name.endsWith(".json"));
  const files = names.sort().map((name) => Bun.file(join(import.meta.dir, name)).json());
  return ((await Promise.all(files)) as RecordedFile[]).flatMap(requestsOf);
}

function requestsOf({ client, requests: stored }: RecordedFile): readonly RecordedRequest[] {
  const requests: RecordedRequest[] = [];
  for (const { name, path, like, without = [], then = {}, ...own } of stored) {
    const earlier = requests.find((request) => request.path === path && request.name === like);
    if (like !== undefined && earlier === undefined)
      throw new Error(`${client}: "${name}" is like "${like}", which is no earlier request`);
    const body = { ...earlier?.body, ...own.body };
    for (const member of without) delete body[member];
    for (const [member, added] of Object.entries(then))
      body[member] = [...(body[member] as readonly unknown[]), ...added];
    requests.push({ client, name, path, headers: own.headers ?? earlier?.headers ?? {}, body });
  }
  return requests;
}
