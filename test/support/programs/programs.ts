import { existsSync } from "node:fs";
import { join } from "node:path";

/** A program that its makers publish as an executable, in a package for Linux on x64. */
export interface Program {
  readonly name: string;
  readonly path: string;
  /** Undefined unless the program cannot be run here. */
  readonly missing: string | undefined;
}

const packages = join(import.meta.dir, "node_modules");

export const claudeCode = program("Claude Code", "@anthropic-ai/claude-code-linux-x64/claude");
export const codex = program(
  "Codex CLI",
  "@openai/codex/vendor/x86_64-unknown-linux-musl/bin/codex",
);
export const opencode = program("opencode", "opencode-linux-x64-baseline/bin/opencode");

function program(name: string, file: string): Program {
  const path = join(packages, file);
  return { name, path, missing: existsSync(path) ? undefined : whyMissing(name) };
}

function whyMissing(name: string): string {
  if (process.platform !== "linux" || process.arch !== "x64")
    return `the tests have ${name} for Linux on x64 only`;
  return `${name} is not installed: run "bun run programs"`;
}
