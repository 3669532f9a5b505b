/** Resolves once the condition holds; fails after `timeoutMs` with what was waited for. */
export async function until(
  what: string,
  condition: () => boolean,
  timeoutMs = 20_000,
): Promise<void> {
  const deadlineMs = performance.now() + timeoutMs;
  while (!condition()) {
    if (performance.now() > deadlineMs) {
      throw new Error(`waited in vain: ${what}`);
    }
    await Bun.sleep(1);
  }
}

/** The same with a condition that must be asked for. */
export async function untilAsync(
  what: string,
  condition: () => Promise<boolean>,
  timeoutMs = 20_000,
): Promise<void> {
  const deadlineMs = performance.now() + timeoutMs;
  while (!(await condition())) {
    if (performance.now() > deadlineMs) throw new Error(`waited in vain: ${what}`);
    await Bun.sleep(1);
  }
}
