import text from "../../config.example.toml" with { type: "text" };

/** The commented config that a new installation starts from. It names every key, with its default and unit. */
export function exampleConfig(): string {
  // The runtime's types know a .toml file only as a parsed one.
  return String(text);
}
