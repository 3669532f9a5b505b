import { weighed, type Chance } from "../seededRandom.ts";

/**
 * JSON of any form: a scalar is its own text, and the members of an object are pairs
 * of raw texts, in which a key may be repeated.
 */
export type Tree = string | Branch;
type Branch = { readonly items: Tree[] } | { readonly members: [key: string, value: Tree][] };

/** The tree of a JSON value. */
export function treeOf(value: unknown): Tree {
  if (Array.isArray(value)) return { items: value.map(treeOf) };
  if (typeof value !== "object" || value === null) return JSON.stringify(value);
  const members = Object.entries(value).map(([key, inner]): [string, Tree] => [
    JSON.stringify(key),
    treeOf(inner),
  ]);
  return { members };
}

/** The text of a tree, with white space here and there. */
export function textOf(tree: Tree, chance: Chance): string {
  const space = chance.chance(0.2)
    ? () => chance.pick(["", "", " ", "\n", "\t", "\r\n", "  "])
    : () => "";
  const write = (one: Tree): string => {
    if (typeof one === "string") return one;
    if ("items" in one) return `[${one.items.map((item) => space() + write(item)).join(",")}]`;
    const members = one.members.map(([key, inner]) => `${space()}${key}${space()}:${write(inner)}`);
    return `{${members.join(",")}${space()}}`;
  };
  return space() + write(tree) + space();
}

/** What a change means for the reader: anything, or a refusal. */
export type Meaning = "anything" | "refused";

const changesMax = 3;

/** Changes a tree in place; the last change may be one that must be refused. */
export function changeTree(root: Tree, chance: Chance): { tree: Tree; meaning: Meaning } {
  // The root gets a parent, so that it can be changed like any other node.
  const above: Branch = { items: [root] };
  for (let left = chance.below(changesMax); left > 0; left -= 1) changeSomewhere(above, chance);
  const meaning = weighed<() => Meaning>(chance, [
    [6, () => changeSomewhere(above, chance)],
    [1, () => twin(above, chance)],
    [1, () => halfPair(above, chance)],
  ])();
  return { tree: above.items[0] ?? "", meaning };
}

function changeSomewhere(above: Branch, chance: Chance): Meaning {
  const branch = chance.pick(branchesOf(above));
  const list = "items" in branch ? branch.items : branch.members;
  if (list.length === 0 || (branch !== above && chance.chance(0.2))) {
    add(branch, oddValue(chance), chance);
    return "anything";
  }
  const at = chance.below(list.length);
  if (branch !== above && chance.chance(0.25)) {
    list.splice(at, 1);
    return "anything";
  }
  const value = weighed<() => Tree>(chance, [
    [1, () => nested(valueAt(branch, at), chance)],
    [1, () => valueIn(chance.pick(branchesOf(above)), chance)],
    [3, () => oddValue(chance)],
  ])();
  set(branch, at, value);
  return "anything";
}

/** Repeats a key, in an object that has one. */
function twin(above: Branch, chance: Chance): Meaning {
  const objects = branchesOf(above).filter((one) => "members" in one && one.members.length > 0);
  if (objects.length === 0) return "anything";
  const object = chance.pick(objects);
  if (!("members" in object)) return "anything";
  const [key] = chance.pick(object.members);
  object.members.push([key, chance.pick(oddScalars)]);
  return "refused";
}

/** Half a surrogate pair, in some array or object. */
function halfPair(above: Branch, chance: Chance): Meaning {
  const [, ...branches] = branchesOf(above);
  if (branches.length === 0) return "anything";
  add(chance.pick(branches), chance.pick(halves), chance);
  return "refused";
}

/** Every array and object of the tree. */
function branchesOf(root: Branch): Branch[] {
  const found = [root];
  for (const branch of found) {
    const values = "items" in branch ? branch.items : branch.members.map(([, value]) => value);
    for (const value of values) if (typeof value !== "string") found.push(value);
  }
  return found;
}

function valueAt(branch: Branch, at: number): Tree {
  return ("items" in branch ? branch.items[at] : branch.members[at]?.[1]) ?? "null";
}

/** A copy of some value of a branch. */
function valueIn(branch: Branch, chance: Chance): Tree {
  const { length } = "items" in branch ? branch.items : branch.members;
  return structuredClone(length === 0 ? "null" : valueAt(branch, chance.below(length)));
}

function set(branch: Branch, at: number, value: Tree): void {
  if ("items" in branch) branch.items[at] = value;
  else branch.members[at] = [branch.members[at]?.[0] ?? '""', value];
}

function add(branch: Branch, value: Tree, chance: Chance): void {
  if ("items" in branch) branch.items.push(value);
  else branch.members.push([chance.pick(oddKeys), value]);
}

const depths = [1, 2, 10, 300, 3000] as const;

function nested(value: Tree, chance: Chance): Tree {
  const depth = chance.pick(depths);
  if (typeof value !== "string")
    return chance.chance(0.5) ? { items: [value] } : { members: [['"a"', value]] };
  return chance.chance(0.5)
    ? `${"[".repeat(depth)}${value}${"]".repeat(depth)}`
    : `${'{"a":'.repeat(depth)}${value}${"}".repeat(depth)}`;
}

function oddValue(chance: Chance): Tree {
  return weighed<() => Tree>(chance, [
    [8, () => chance.pick(oddScalars)],
    [1, () => ({ items: [] })],
    [1, () => ({ members: [] })],
    [1, () => ({ items: [chance.pick(oddScalars), { members: [] }] })],
    [1, () => ({ members: [[chance.pick(oddKeys), chance.pick(oddScalars)]] })],
    [1, () => `[${"0,".repeat(chance.below(11_000))}0]`],
  ])();
}

const halves = [
  String.raw`"\ud800"`,
  String.raw`"\uDFFF x"`,
  String.raw`"\ud83d\u0041"`,
  String.raw`["\ude00\ud83d"]`,
  String.raw`{"\udbff":0}`,
] as const;

const oddScalars = [
  "null",
  "true",
  "false",
  "0",
  "-0",
  "-1",
  "1",
  "8",
  "9",
  "1.0",
  "1.5",
  "1e2",
  "-1e-2",
  "1e400",
  "-1e400",
  "2147483648",
  "9007199254740991",
  "9007199254740993",
  "1".repeat(400),
  `0.${"3".repeat(400)}`,
  '""',
  '" "',
  '"a"',
  '"small"',
  '"user"',
  '"text"',
  '"auto"',
  '"5"',
  String.raw`"\u0000\u001f\"\\\/"`,
  String.raw`"\ud83d\ude00"`,
  '"\u{1F600}\uFEFF\u2028"',
  '"../../etc/passwd"',
  `"' OR 1=1; --"`,
  '"data: [DONE]"',
  '"resp_1"',
  `"${"x".repeat(5000)}"`,
] as const;

const oddKeys = [
  "model",
  "messages",
  "input",
  "stream",
  "stream_options",
  "max_tokens",
  "max_completion_tokens",
  "max_output_tokens",
  "n",
  "stop",
  "temperature",
  "tools",
  "tool_calls",
  "role",
  "content",
  "type",
  "text",
  "id",
  "background",
  "service_tier",
  "models",
  "route",
  "previous_response_id",
  "conversation",
  "prompt",
  "file_id",
  "container",
  "api_base",
  "__proto__",
  "constructor",
  "hasOwnProperty",
  "",
  "\u0000",
  "\u{1F511}",
].map((key) => JSON.stringify(key));
