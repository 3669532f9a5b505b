type Labels = Readonly<Record<string, string>>;

/** One line of the text form: https://prometheus.io/docs/instrumenting/exposition_formats/ */
export interface Sample {
  readonly name: string;
  readonly labels: Labels;
  readonly value: number;
}

export interface Scrape {
  readonly text: string;
  readonly samples: readonly Sample[];
  /** The kind of each family, by its name. */
  readonly types: Readonly<Record<string, string>>;
  /** The sample of exactly these labels; 0 where there is none yet. */
  value(name: string, labels?: Labels): number;
  /** The samples of a name, without the name. */
  all(name: string): readonly Omit<Sample, "name">[];
}

const familyLine = /^# (HELP|TYPE) ([a-zA-Z_:][\w:]*) (.+)$/;
const sampleLine = /^([a-zA-Z_:][\w:]*)(?:\{(.*)\})? (\S+)$/;
const labelPair = /([a-zA-Z_]\w*)="((?:[^"\\\n]|\\[\\n"])*)"(?:,|$)/gy;

/** Fetches and reads metrics. Throws for a line that is none of the text form's. */
export async function scrape(url: string, init: BunFetchRequestInit = {}): Promise<Scrape> {
  const answer = await fetch(url, init);
  if (answer.status !== 200) throw new Error(`metrics answered with ${answer.status}`);
  return readScrape(await answer.text());
}

export function readScrape(text: string): Scrape {
  const types: Record<string, string> = {};
  const samples: Sample[] = [];
  for (const line of text.split("\n")) {
    if (line === "") continue;
    const family = familyLine.exec(line);
    if (family?.[1] === "TYPE") types[family[2] ?? ""] = family[3] ?? "";
    else if (!family) samples.push(sampleOf(line));
  }
  return {
    text,
    samples,
    types,
    value: (name, labels = {}) =>
      samples.find((one) => one.name === name && Bun.deepEquals(one.labels, labels))?.value ?? 0,
    all: (name) =>
      samples.filter((one) => one.name === name).map(({ labels, value }) => ({ labels, value })),
  };
}

function sampleOf(line: string): Sample {
  const [, name, labelText = "", number] = sampleLine.exec(line) ?? [];
  if (name === undefined) throw new Error(`not a sample: ${line}`);
  const pairs = [...labelText.matchAll(labelPair)];
  if (pairs.map(([pair]) => pair).join("") !== labelText) throw new Error(`bad labels: ${line}`);
  const labels = Object.fromEntries(pairs.map(([, label = "", value = ""]) => [label, value]));
  const value = number === "+Inf" ? Infinity : Number(number);
  if (Number.isNaN(value)) throw new Error(`not a number: ${line}`);
  return { name, labels, value };
}

/** The difference that `work` made to the figures. */
export async function growth(
  url: string,
  work: () => Promise<unknown>,
): Promise<Pick<Scrape, "value" | "all">> {
  const before = await scrape(url);
  await work();
  const after = await scrape(url);
  const added = (name: string, labels: Labels): number =>
    after.value(name, labels) - before.value(name, labels);
  return {
    value: (name, labels = {}) => added(name, labels),
    all: (name) =>
      after
        .all(name)
        .map(({ labels }) => ({ labels, value: added(name, labels) }))
        .filter(({ value }) => value !== 0),
  };
}
