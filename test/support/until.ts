/** Resolves once the condition holds; fails after `timeoutMs` with what was waited for. */
export async function until(
  what: string,
  condition: () => boolean,
  timeoutMs = 20_000,
): Promise<void> {
  await waitFor(what, condition, timeoutMs, 5);
}

/** The same with a condition that must be asked for. */
export async function untilAsync(
  what: string,
  condition: () => Promise<boolean>,
  timeoutMs = 20_000,
): Promise<void> {
  await waitFor(what, condition, timeoutMs, 25);
}

/** The longer it waits, the less often it looks: a test that waits for seconds leaves the processor to others. */
async function waitFor(
  what: string,
  condition: () => boolean | Promise<boolean>,
  timeoutMs: number,
  stepMsMax: number,
): Promise<void> {
  const startedMs = performance.now();
  while (!(await condition())) {
    const waitedMs = performance.now() - startedMs;
    if (waitedMs > timeoutMs) throw new Error(`waited in vain: ${what}`);
    await Bun.sleep(Math.min(1 + waitedMs / 20, stepMsMax));
  }
}
