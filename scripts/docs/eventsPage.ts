import { events } from "../../src/telemetry/events.ts";
import { code } from "./markdown.ts";

const introduction = `Every line of the log of level \`warn\` and \`error\` has a name in its field \`event\`. The name stays the same in later versions.
\`tollgate explain EVENT\` shows its section on the machine itself; without a name it lists all.`;

/** A section for each event, so that each can be found and linked by its name. */
export function eventsPage(): string {
  const sections = Object.entries(events).map(([name, { level, message, meaning, advice }]) =>
    [`## ${name}`, `Level ${level}: ${code(message)}`, meaning, `**What to do.** ${advice}`].join(
      "\n\n",
    ),
  );
  return ["# Events of the log", introduction, ...sections].join("\n\n");
}
