/** A line for a shell that runs this program with these words, on the config that `--config` named, if it did. */
export function commandToPaste(config: string | undefined, ...words: readonly string[]): string {
  const option = config === undefined ? [] : ["--config", config];
  return ["tollgate", ...words, ...option].map(shellWord).join(" ");
}

/** A text as one word of a POSIX shell, which reads nothing into it. */
export function shellWord(text: string): string {
  return /^[\w./%@:+,-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`;
}
