import { Argument, type Command } from "commander";
import { events, type EventName } from "../telemetry/events.ts";
import { printResult, type Result } from "./cli/print.ts";
import { globalOptions } from "./cli/session.ts";
import { fields, table } from "../lib/terminal.ts";

const names = Object.keys(events) as readonly EventName[];

/** Registers `tollgate explain`. It needs no config. */
export function addExplain(program: Command): void {
  program
    .command("explain")
    .description("say what a warning or an error of the log means, and what to do")
    .addArgument(
      new Argument("[event]", "the field `event` of the log line; default: all").choices(names),
    )
    .action((name: EventName | undefined, _: unknown, command: Command) =>
      printResult(name === undefined ? list() : explanation(name), globalOptions(command).json),
    );
}

function documentOf(name: EventName) {
  return { event: name, ...events[name] };
}

function explanation(name: EventName): Result {
  const { level, message, meaning, advice } = events[name];
  return {
    document: documentOf(name),
    text: () =>
      fields([
        ["event", name],
        ["level", level],
        ["message", message],
        ["meaning", meaning],
        ["what to do", advice],
      ]),
  };
}

function list(): Result {
  const columns = [{ head: "event" }, { head: "level" }, { head: "message" }];
  return {
    document: names.map(documentOf),
    text: () =>
      table(
        columns,
        names.map((name) => [name, events[name].level, events[name].message]),
      ),
  };
}
