import { commandCase, flagList, valueCases, valued, wordList } from "./bash.ts";
import type { Candidate, CompletedCommand, CompletedOption, Expected } from "./commandTree.ts";

/** The script for zsh. It can be sourced, or stored as `_tollgate` in a folder of fpath. */
export function zshScript(tree: readonly CompletedCommand[]): string {
  return `#compdef tollgate
# zsh completion for tollgate, made by: tollgate completion zsh

# Sets the words of the command with the path $1, with descriptions. valued: the options that take a value.
_tollgate_command() {
  commands=() names=() options=() valued=() values=() isFile=''
  case $1 in
${tree.map(branch).join("\n")}
  esac
}

# Sets the values of the option $2 of the command $1.
_tollgate_value() {
  values=() isFile=''
  case $1:$2 in
${tree.flatMap((command) => valueCases(command, assigned)).join("\n")}
  esac
}

_tollgate() {
  local current=$words[CURRENT] at='' pending='' isEnded='' isPlaced='' isFile word
  local -a commands names options valued values
  local -i i
  _tollgate_command ''
  for ((i = 2; i < CURRENT; i++)); do
    word=\${(Q)words[i]}
    if [[ -n $pending ]]; then
      pending=''
    elif [[ -z $isEnded && $word == -- ]]; then
      isEnded=1
    elif [[ -z $isEnded && $word == -* ]]; then
      (( \${valued[(Ie)$word]} )) && pending=$word
    elif [[ -z $isPlaced ]] && (( \${names[(Ie)$word]} )); then
      at=\${at:+$at }$word
      _tollgate_command "$at"
    else
      isPlaced=1
    fi
  done
  if [[ -z $pending && -z $isEnded && $current == --*=* ]]; then
    pending=\${current%%=*}
    compset -P '*='
  fi
  if [[ -n $pending ]]; then
    _tollgate_value "$at" "$pending"
  elif [[ -z $isEnded && $current == -* ]]; then
    _describe -o option options
    return
  elif [[ -n $isPlaced ]]; then
    return 1
  elif (( $#commands )); then
    _describe command commands
    return
  fi
  if [[ -n $isFile ]]; then
    _files
  elif (( $#values )); then
    _describe value values
  else
    return 1
  fi
}

# zsh calls this file if it is in fpath. If it is sourced, it only registers the function.
if [[ $funcstack[1] == _tollgate ]]; then
  _tollgate "$@"
elif (( $+functions[compdef] )); then
  compdef _tollgate tollgate
else
  print -u2 'tollgate completion: run "autoload -Uz compinit && compinit" first'
fi`;
}

function branch({ path, subcommands, options, argument }: CompletedCommand): string {
  return commandCase(path, [
    `commands=(${described(subcommands)})`,
    `names=(${wordList(subcommands.map(({ word }) => word))})`,
    `options=(${described(options.flatMap(candidates))})`,
    `valued=(${flagList(valued(options))})`,
    assigned(argument),
  ]);
}

function assigned({ words, isFile }: Expected): string {
  const plain = words.map((word) => ({ word, description: "" }));
  return `values=(${described(plain)}) isFile=${isFile ? "1" : "''"}`;
}

function candidates({ flags, description }: CompletedOption): readonly Candidate[] {
  return flags.map((word) => ({ word, description }));
}

/** The form of `_describe`: the first unescaped colon separates the word from its description. */
function described(some: readonly Candidate[]): string {
  return wordList(
    some.map(({ word, description }) => {
      const escaped = word.replace(/[\\:]/g, "\\$&");
      return description === "" ? escaped : `${escaped}:${description}`;
    }),
  );
}
