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

type StoredRequest = Omit<RecordedRequest, "client" | "headers"> & {
  readonly headers?: Readonly<Record<string, string>>;
  /** Members that are those of the client's first request to the same path. */
  readonly same?: readonly string[];
};

/** All that the programs sent, in the order of their files. */
export async function recordedRequests(): Promise<readonly RecordedRequest[]> {
  const names = readdirSync(import.meta.dir).filter((name) => name.endsWith(".json"));
  const files = names.sort().map((name) => Bun.file(join(import.meta.dir, name)).json());
  return ((await Promise.all(files)) as RecordedFile[]).flatMap(requestsOf);
}

function requestsOf({ client, requests }: RecordedFile): readonly RecordedRequest[] {
  return requests.map(({ same = [], headers = {}, body: own, ...request }) => {
    const first = requests.find(({ path }) => path === request.path);
    const shared = same.map((key) => [key, first?.body[key]] as const);
    return { client, ...request, headers, body: { ...Object.fromEntries(shared), ...own } };
  });
}
