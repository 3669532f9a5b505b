import { Argument, type Command } from "commander";
import { printResult } from "../cli/print.ts";
import { globalOptions } from "../cli/session.ts";
import { bashScript } from "./bash.ts";
import { fishScript } from "./fish.ts";
import { commandTree, type CompletedCommand } from "./commandTree.ts";
import { zshScript } from "./zsh.ts";

type Shell = "bash" | "zsh" | "fish";

/** The scripts contain all commands: completion does not start tollgate, and never evaluates typed words as code. */
const scripts: Readonly<Record<Shell, (tree: readonly CompletedCommand[]) => string>> = {
  bash: bashScript,
  zsh: zshScript,
  fish: fishScript,
};

const HOW_TO_LOAD = `
For this session:   source <(tollgate completion bash)     # or zsh
                    tollgate completion fish | source
For every session:  tollgate completion bash > /usr/share/bash-completion/completions/tollgate
                    tollgate completion zsh > "\${fpath[1]}/_tollgate"
                    tollgate completion fish > ~/.config/fish/completions/tollgate.fish`;

/** Registers `tollgate completion`. It needs all other commands to be registered. */
export function addCompletion(program: Command): void {
  program
    .command("completion")
    .description("print a script that completes commands and options in a shell")
    .addArgument(new Argument("<shell>").choices(Object.keys(scripts)))
    .addHelpText("after", HOW_TO_LOAD)
    .action((shell: Shell, _: unknown, command: Command) => {
      const script = scripts[shell](commandTree(program));
      printResult({ document: { shell, script }, text: () => script }, globalOptions(command).json);
    });
}
