/** An event as a client of the SSE standard sees it. */
export interface ReceivedEvent {
  readonly name: string | undefined;
  readonly data: string;
}

/**
 * The events in the text of a stream, by https://html.spec.whatwg.org/multipage/server-sent-events.html: comments are
 * skipped, and so is an incomplete last event.
 */
export function eventsIn(text: string): readonly ReceivedEvent[] {
  const events: ReceivedEvent[] = [];
  let name: string | undefined;
  let data: string[] = [];
  const lines = text.replace(/^\ufeff/, "").split(/\r\n|\r|\n/);
  for (const line of lines.slice(0, -1)) {
    const [, field, value = ""] = /^([^:]*)(?:: ?(.*))?$/s.exec(line) ?? [];
    if (line === "") {
      if (data.length > 0) events.push({ name, data: data.join("\n") });
      name = undefined;
      data = [];
    } else if (field === "event") name = value;
    else if (field === "data") data.push(value);
  }
  return events;
}

/** The fields of an event's data. Throws if it is not an object. */
export function fieldsOf({ data }: ReceivedEvent): Record<string, unknown> {
  const value: unknown = JSON.parse(data);
  if (typeof value !== "object" || value === null) throw new Error(`not an object: ${data}`);
  return value as Record<string, unknown>;
}
