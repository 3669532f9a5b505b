import { outputOf } from "./binary.ts";

/** A shell that completes, by a script of ours. */
export interface CompletingShell {
  readonly name: "bash" | "zsh" | "fish";
  /** Where it is; null: not installed. */
  readonly path: string | null;
  /**
   * Sources the script and asks what it offers for the last of the words, of which the first is the
   * program. It finds `tollgate` in `bin` of the folder. Returns the words in the order of the alphabet; `(files)` stands for the names of files.
   */
  offered(script: string, words: readonly string[], folder: string): Promise<readonly string[]>;
}

/** The shell's own completion is not there without a terminal: these stand in for what the script calls of it. */
const bashHost = `
source /dev/fd/3
compopt() { [[ "$*" == "-o default" ]] && COMPREPLY+=("(files)"); }
COMP_WORDS=("$@")
COMP_CWORD=$(($# - 1))
_tollgate
((\${#COMPREPLY[@]})) && printf '%s\\n' "\${COMPREPLY[@]}"
exit 0`;

const zshHost = `
compdef() { :; }
source /dev/fd/3
words=("$@")
CURRENT=$#
prefix=$words[CURRENT]
compset() { prefix=\${prefix#$~2}; }
_files() { print -r -- '(files)'; }
_describe() {
  [[ $1 == -o ]] && shift
  local item word
  for item in "\${(P@)2}"; do
    # What a backslash stands before is itself, and the first other colon ends the word.
    word=\${item//(#b)\\\\(?)/$'\\0'$match[1]}
    word=\${\${word//$'\\0':/$'\\1'}%%:*}
    word=\${\${word//$'\\1'/:}//$'\\0'/}
    [[ $word == "$prefix"* ]] && print -r -- $word
  done
}
setopt extendedglob
_tollgate
exit 0`;

/** Fish can be asked for what it would offer. It tells of a file by its name: the folder has one. */
const fishHost = `
source /dev/fd/3
complete -C "$argv[1]"`;

export const shells: readonly CompletingShell[] = [
  {
    name: "bash",
    path: Bun.which("bash"),
    offered: (script, words, folder) =>
      run(["bash", "--norc", "-c", bashHost, "bash", ...words], script, folder),
  },
  {
    name: "zsh",
    path: Bun.which("zsh"),
    offered: (script, words, folder) =>
      run(["zsh", "-f", "-c", zshHost, "zsh", ...words], script, folder),
  },
  {
    name: "fish",
    path: Bun.which("fish"),
    async offered(script, words, folder) {
      const lines = await run(
        ["fish", "--no-config", "-c", fishHost, words.join(" ")],
        script,
        folder,
      );
      const offers = lines.map((line) => line.split("\t")[0] ?? "");
      return offers.map((offer) => (offer === "config.toml" ? "(files)" : offer));
    },
  },
];

async function run(
  command: readonly string[],
  script: string,
  folder: string,
): Promise<readonly string[]> {
  const file = `${folder}/.completion`;
  await Bun.write(file, script);
  const child = Bun.spawn(["sh", "-c", 'exec "$@" 3<"$0"', file, ...command], {
    cwd: folder,
    env: { PATH: `${folder}/bin:${process.env["PATH"] ?? ""}`, HOME: folder, LC_ALL: "C.UTF-8" },
    stdio: ["ignore", "pipe", "pipe"],
  });
  const { stdout, stderr, status } = await outputOf(child);
  if (status !== 0 || stderr !== "") throw new Error(`it ended with ${status}: ${stderr}`);
  return stdout.split("\n").filter(Boolean).toSorted();
}
