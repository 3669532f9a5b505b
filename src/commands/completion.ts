import { Argument, type Command, type Option } from "commander";
import { printResult, printText } from "./cli/print.ts";
import { globalOptions } from "./cli/session.ts";

// Typed words are data: no script evaluates them.

const bash = `# bash completion for tollgate, made by: tollgate completion bash
_tollgate() {
  local word description
  COMPREPLY=()
  while IFS=$'\\t' read -r word description; do
    if [[ $word == :files ]]; then
      # Bash's own completion quotes the names of files.
      compopt -o default 2>/dev/null
    else
      COMPREPLY+=("$(printf %q "$word")")
    fi
  done < <(command tollgate complete -- "\${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null)
}
complete -F _tollgate tollgate`;

const zsh = `#compdef tollgate
# zsh completion for tollgate, made by: tollgate completion zsh
_tollgate() {
  local line word
  local -a offers
  for line in "\${(@f)$(command tollgate complete -- "\${(@Q)words[2,CURRENT]}" 2>/dev/null)}"; do
    word=\${line%%$'\\t'*}
    if [[ $word == :files ]]; then
      _files
      return
    elif [[ -n $word ]]; then
      # The first unescaped colon separates the word from its description.
      offers+=("\${\${word//\\\\/\\\\\\\\}//:/\\\\:}:\${line#*$'\\t'}")
    fi
  done
  (( $#offers )) && _describe offer offers
}
# zsh calls this file if it is in fpath. If it is sourced, it only registers the function.
if [[ $funcstack[1] == _tollgate ]]; then
  _tollgate "$@"
elif (( $+functions[compdef] )); then
  compdef _tollgate tollgate
else
  print -u2 'tollgate completion: run "autoload -Uz compinit && compinit" first'
fi`;

const fish = `# fish completion for tollgate, made by: tollgate completion fish
function __tollgate_complete
    set -l tokens (commandline -opc)
    set -e tokens[1]
    set -l current (commandline -ct)
    command tollgate complete -- $tokens "$current" 2>/dev/null
end
complete -c tollgate -e
complete -c tollgate -f -a '(__tollgate_complete | string match -v :files)'
complete -c tollgate -n '__tollgate_complete | string match -q :files' -F`;

const scripts = { bash, zsh, fish } as const;

const HOW_TO_LOAD = `
For this session:   source <(tollgate completion bash)     # or zsh
                    tollgate completion fish | source
For every session:  tollgate completion bash > /usr/share/bash-completion/completions/tollgate
                    tollgate completion zsh > "\${fpath[1]}/_tollgate"
                    tollgate completion fish > ~/.config/fish/completions/tollgate.fish`;

/** Registers `tollgate completion`. */
export function addCompletion(program: Command): void {
  program
    .command("completion")
    .description("print a script that completes commands and options in a shell")
    .addArgument(new Argument("<shell>").choices(Object.keys(scripts)))
    .addHelpText("after", HOW_TO_LOAD)
    .action((shell: keyof typeof scripts, _: unknown, command: Command) => {
      const script = scripts[shell];
      printResult({ document: { shell, script }, text: () => script }, globalOptions(command).json);
    });
}

/**
 * Registers `tollgate complete -- WORDS`, which the scripts call. It prints a line for each word that can stand for the last
 * of the typed words, with a tab and its description; or the line `:files`. It needs all other commands to be registered.
 */
export function addComplete(program: Command): void {
  program
    .command("complete", { hidden: true })
    .argument("[words...]")
    .action((words: readonly string[]) => {
      const { offers, takesFile } = offersFor(program, words);
      const lines = offers.map(({ word, description }) => `${word}\t${description}`);
      const printed = takesFile ? [...lines, ":files"] : lines;
      if (printed.length > 0) printText(printed.join("\n"));
    });
}

/** A word that completion offers, with a description of one line. */
interface Offer {
  readonly word: string;
  readonly description: string;
}

interface Offers {
  readonly offers: readonly Offer[];
  readonly takesFile: boolean;
}

/** The offers for the last of the words after the program's name. */
export function offersFor(program: Command, words: readonly string[]): Offers {
  const typed = words.slice(0, -1);
  let current = words.at(-1) ?? "";
  let command = program;
  let valued: Option | undefined;
  let isEnded = false;
  let isPlaced = false;
  for (const word of typed) {
    const below = command
      .createHelp()
      .visibleCommands(command)
      .find((one) => one.name() === word);
    // Bash makes the = of --option=value a word of its own.
    if (valued !== undefined) valued = word === "=" ? valued : undefined;
    else if (!isEnded && word === "--") isEnded = true;
    else if (!isEnded && word.startsWith("-")) valued = optionOf(command, word);
    else if (!isPlaced && below !== undefined) command = below;
    else isPlaced = true;
  }
  if (valued !== undefined) {
    if (current === "=") current = "";
    return valuesOf(valued.argChoices, nameIn(valued.flags), current);
  }
  const [, flag = "", assigned = ""] = /^(--[^=]*)=(.*)$/s.exec(current) ?? [];
  if (!isEnded && flag !== "") {
    const option = optionOf(command, flag);
    return valuesOf(option?.argChoices, nameIn(option?.flags ?? ""), assigned, `${flag}=`);
  }
  if (!isEnded && current.startsWith("-")) {
    const flags = optionsOf(command).flatMap(({ short, long, description }) =>
      [short, long].flatMap((word) => (word === undefined ? [] : [{ word, description }])),
    );
    return { offers: startingWith(current, flags), takesFile: false };
  }
  if (isPlaced) return { offers: [], takesFile: false };
  return commandsAndArgument(command, current);
}

/** The subcommands, or the values of the first argument. */
function commandsAndArgument(command: Command, current: string): Offers {
  const subcommands = command
    .createHelp()
    .visibleCommands(command)
    .map((one) => ({ word: one.name(), description: one.description() }));
  // The argument of `help` is one of the other commands.
  const others = command.parent?.createHelp().visibleCommands(command.parent) ?? [];
  const named = others.map((one) => one.name()).filter((name) => name !== "help");
  const [first] = command.registeredArguments;
  const choices = command.name() === "help" ? named : first?.argChoices;
  const { offers, takesFile } = valuesOf(choices, first?.name() ?? "", current);
  return { offers: [...startingWith(current, subcommands), ...offers], takesFile };
}

/** The name of the value in the help tells whether it is a file. */
function valuesOf(
  choices: readonly string[] | undefined,
  name: string,
  current: string,
  prefix = "",
): Offers {
  const words = (choices ?? []).filter((word) => word.startsWith(current));
  return {
    offers: words.map((word) => ({ word: prefix + word, description: "" })),
    takesFile: /^(?:file|path|folder)$/.test(name),
  };
}

function startingWith(current: string, offers: readonly Offer[]): readonly Offer[] {
  return offers
    .filter(({ word }) => word.startsWith(current))
    .map(({ word, description }) => ({ word, description: description.replace(/\s+/g, " ") }));
}

function optionsOf(command: Command): readonly Option[] {
  const help = command.createHelp();
  return [...help.visibleOptions(command), ...help.visibleGlobalOptions(command)];
}

/** The option that takes a value and has this flag. */
function optionOf(command: Command, flag: string): Option | undefined {
  return optionsOf(command).find(
    ({ short, long, required, optional }) =>
      (required || optional) && (flag === short || flag === long),
  );
}

function nameIn(flags: string): string {
  return /[<[]([^\]>]*)/.exec(flags)?.[1] ?? "";
}
