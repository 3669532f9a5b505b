import type { CompletedCommand, Expected, CompletedOption } from "./commandTree.ts";
import { shellWord } from "../../lib/terminal.ts";

/** The script for Bash 3.2 and later. Completion of files needs Bash 4. */
export function bashScript(tree: readonly CompletedCommand[]): string {
  return `# bash completion for tollgate, made by: tollgate completion bash

# Sets the words of the command with the path $1. valued: the options that take a value.
_tollgate_command() {
  commands=() options=() valued=() words=() isFile=''
  case $1 in
${tree.map(branch).join("\n")}
  esac
}

# Sets the values of the option $2 of the command $1.
_tollgate_value() {
  words=() isFile=''
  case $1:$2 in
${tree.flatMap((command) => valueCases(command, assigned)).join("\n")}
  esac
}

_tollgate_contains() {
  local wanted=$1 item
  shift
  for item; do
    [[ $item == "$wanted" ]] && return 0
  done
  return 1
}

_tollgate() {
  local current=\${COMP_WORDS[COMP_CWORD]} path='' pending='' prefix='' isEnded='' isPlaced='' isFile i word
  local -a commands options valued words
  COMPREPLY=()
  _tollgate_command ''
  for ((i = 1; i < COMP_CWORD; i++)); do
    word=\${COMP_WORDS[i]}
    if [[ $pending ]]; then
      # The = of --option=value is a word of its own.
      [[ $word == = ]] || pending=''
    elif [[ ! $isEnded && $word == -- ]]; then
      isEnded=1
    elif [[ ! $isEnded && $word == -* ]]; then
      _tollgate_contains "$word" "\${valued[@]}" && pending=$word
    elif [[ ! $isPlaced ]] && _tollgate_contains "$word" "\${commands[@]}"; then
      path=\${path:+$path }$word
      _tollgate_command "$path"
    else
      isPlaced=1
    fi
  done
  if [[ ! $pending && ! $isEnded && $current == --*=* ]]; then
    pending=\${current%%=*}
    prefix=$pending=
    current=\${current#*=}
  elif [[ $pending && $current == = ]]; then
    current=''
  fi
  if [[ $pending ]]; then
    _tollgate_value "$path" "$pending"
  elif [[ ! $isEnded && $current == -* ]]; then
    words=("\${options[@]}") isFile=''
  elif [[ $isPlaced ]]; then
    words=() isFile=''
  else
    words=("\${commands[@]}" "\${words[@]}")
  fi
  for word in "\${words[@]}"; do
    [[ $word == "$current"* ]] && COMPREPLY+=("$(printf %q "$prefix$word")")
  done
  # Bash's own completion quotes the names of files.
  [[ $isFile ]] && compopt -o default 2>/dev/null
  return 0
}

complete -F _tollgate tollgate`;
}

function branch({ path, subcommands, options, argument }: CompletedCommand): string {
  return commandCase(path, [
    `commands=(${wordList(subcommands.map(({ word }) => word))})`,
    `options=(${flagList(options)})`,
    `valued=(${flagList(valued(options))})`,
    assigned(argument),
  ]);
}

function assigned({ words, isFile }: Expected): string {
  return `words=(${wordList(words)}) isFile=${isFile ? "1" : "''"}`;
}

// The functions below are shared with the script for zsh.

/** The `case` branch of a command. `settings` are assignments. */
export function commandCase(path: string, settings: readonly string[]): string {
  return `    ${path === "" ? "''" : shellWord(path)}) ${settings.join(" ")} ;;`;
}

/** The `case` branches `path:option` of options with known values. `assigned` returns the assignments. */
export function valueCases(
  { path, options }: CompletedCommand,
  assigned: (value: Expected) => string,
): readonly string[] {
  return options.flatMap(({ flags, value }) =>
    value === undefined || (value.words.length === 0 && !value.isFile)
      ? []
      : flags.map((flag) => `    ${shellWord(`${path}:${flag}`)}) ${assigned(value)} ;;`),
  );
}

/** The options that take a value. */
export function valued(options: readonly CompletedOption[]): readonly CompletedOption[] {
  return options.filter(({ value }) => value !== undefined);
}

/** The flags of the options, as the words of an array. */
export function flagList(options: readonly CompletedOption[]): string {
  return wordList(options.flatMap(({ flags }) => flags));
}

/** The words of an array. */
export function wordList(words: readonly string[]): string {
  return words.map(shellWord).join(" ");
}
