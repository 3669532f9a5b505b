import type { ReadableSubprocess } from "bun";

/** What a process wrote by its end, and how it ended. */
export interface ChildOutput {
  readonly stdout: string;
  readonly stderr: string;
  readonly status: number;
}

/** Waits for the end of a process whose both outputs are pipes. */
export async function outputOf(child: ReadableSubprocess): Promise<ChildOutput> {
  const [stdout, stderr, status] = await Promise.all([
    child.stdout.text(),
    child.stderr.text(),
    child.exited,
  ]);
  return { stdout, stderr, status };
}
