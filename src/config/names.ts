import type { Inspection } from "./inspection.ts";

/** The items of a list of names, each judged: a name is not empty and has no control characters. */
export function readNames(
  inspection: Inspection,
  key: string,
  names: readonly (string | undefined)[],
  faultOf: (name: string) => string | undefined = () => undefined,
): readonly string[] {
  return names.map((name = "", index) => {
    const plain = name !== "" && !/\p{Cc}/u.test(name);
    const fault = plain ? faultOf(name) : "must be a name without control characters";
    if (fault !== undefined) inspection.problem(`${key}[${index}]`, fault);
    return name;
  });
}
