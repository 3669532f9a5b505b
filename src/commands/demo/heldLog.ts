/** A log that waits with its lines until something else has been printed. */
export interface HeldLog {
  readonly write: (line: string) => void;
  /** Writes what has waited; from then on each line is written as it comes. */
  release(): void;
}

export function holdLog(write: (line: string) => void): HeldLog {
  const held: string[] = [];
  let isReleased = false;
  return {
    write(line) {
      if (isReleased) write(line);
      else held.push(line);
    },
    release() {
      isReleased = true;
      for (const line of held.splice(0)) write(line);
    },
  };
}
