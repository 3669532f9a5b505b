import type { CompletedCommand, CompletedOption, Expected } from "./commandTree.ts";

/** The script for fish 3 and later. */
export function fishScript(tree: readonly CompletedCommand[]): string {
  const commands = tree.flatMap(({ path, subcommands }) =>
    subcommands.map(({ word }) => `${path}:${word}`),
  );
  const valued = tree.flatMap(({ path, options }) =>
    options
      .filter(({ value }) => value !== undefined)
      .flatMap(({ flags }) => flags.map((flag) => `${path}:${flag}`)),
  );
  return `# fish completion for tollgate, made by: tollgate completion fish

# True if the typed words are the command $argv[1]; with a second argument, only if no argument follows.
function __tollgate_is
    set -l commands ${list(commands)}
    set -l valued ${list(valued)}
    set -l path ''
    set -l pending ''
    set -l isEnded ''
    set -l isPlaced ''
    set -l tokens (commandline -opc)
    set -e tokens[1]
    for token in $tokens
        if test -n "$pending"
            set pending ''
        else if test -z "$isEnded" -a "x$token" = x--
            set isEnded 1
        else if test -z "$isEnded"; and string match -q -- '-*' $token
            contains -- "$path:$token" $valued; and set pending 1
        else if test -z "$isPlaced"; and contains -- "$path:$token" $commands
            set path (string trim -- "$path $token")
        else
            set isPlaced 1
        end
    end
    test "x$path" = "x$argv[1]"; or return 1
    test -z "$argv[2]"; or test -z "$isPlaced"
end

complete -c tollgate -e
complete -c tollgate -f
${tree.flatMap(commandLines).join("\n")}`;
}

function commandLines({
  path,
  subcommands,
  options,
  argument,
}: CompletedCommand): readonly string[] {
  const always = `complete -c tollgate -n ${quoted(`__tollgate_is ${quoted(path)}`)}`;
  const first = `complete -c tollgate -n ${quoted(`__tollgate_is ${quoted(path)} first`)}`;
  return [
    ...subcommands.map(
      ({ word, description }) => `${first}${words([word])} -d ${quoted(description)}`,
    ),
    ...(argument.words.length > 0 ? [`${first}${words(argument.words)}`] : []),
    ...(argument.isFile ? [`${first} -F`] : []),
    ...options.map((option) => `${always}${optionPart(option)}`),
  ];
}

function optionPart({ flags, description, value }: CompletedOption): string {
  const names = flags.map((flag) =>
    flag.startsWith("--") ? ` -l ${quoted(flag.slice(2))}` : ` -s ${quoted(flag.slice(1))}`,
  );
  return `${names.join("")}${value ? valuePart(value) : ""} -d ${quoted(description)}`;
}

function valuePart(value: Expected): string {
  if (value.isFile) return " -r -F";
  return ` -x${value.words.length > 0 ? words(value.words) : ""}`;
}

/** Fish evaluates the list again when it offers the words, so each word is quoted twice. */
function words(some: readonly string[]): string {
  return ` -a ${quoted(list(some))}`;
}

function list(some: readonly string[]): string {
  return some.map(quoted).join(" ");
}

/** In single quotes fish interprets only `\\\\` and `\\'`. */
function quoted(text: string): string {
  return `'${text.replace(/[\\']/g, "\\$&")}'`;
}
