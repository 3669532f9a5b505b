/** One event as a client by the standard reads it. */
export interface ReadEvent {
  readonly name: string | undefined;
  readonly data: string;
}

/** The events of a stream, and what its end cut off: https://html.spec.whatwg.org/multipage/server-sent-events.html */
export function readEvents(text: string): { events: readonly ReadEvent[]; rest: string } {
  const events: ReadEvent[] = [];
  let name: string | undefined;
  let data: string[] = [];
  let rest = "";
  const lines = text.replace(/^\uFEFF/, "").split(/\r\n|\n|\r/);
  // What follows the last line end is no line.
  rest = lines.pop() ?? "";
  for (const line of lines) {
    if (line === "") {
      if (data.length > 0) events.push({ name, data: data.join("\n") });
      name = undefined;
      data = [];
      continue;
    }
    const [, field = "", value = ""] = /^([^:]*)(?:: ?(.*))?$/s.exec(line) ?? [];
    if (field === "event") name = value;
    if (field === "data") data.push(value);
  }
  return { events, rest: data.join("") + rest };
}
