/** A text as one word of a POSIX shell, which reads nothing into it. */
export function shellWord(text: string): string {
  return /^[\w./%@:+,-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`;
}
