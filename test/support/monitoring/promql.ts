/** A metric that an expression reads, with the conditions on its labels. */
export interface Selector {
  readonly name: string;
  readonly matchers: readonly Matcher[];
}

interface Matcher {
  readonly label: string;
  readonly operator: string;
  readonly value: string;
}

/** What an expression of PromQL needs of the metrics that are served. */
export interface PromqlNeeds {
  readonly selectors: readonly Selector[];
  /** Labels by which it groups or joins. */
  readonly groupings: readonly string[];
}

/** The parts of the language that matter here: https://prometheus.io/docs/prometheus/latest/querying/basics/ */
const token =
  /\s+|"(?:[^"\\]|\\.)*"|\[[^\]]*\]|\d+(?:\.\d+)?(?:[eE][+-]?\d+)?[smhdwy]?|[a-zA-Z_:][\w:]*|=~|!~|!=|==|>=|<=|[-+*/%^=<>(){},@]/gy;
const groupingWords = new Set(["by", "without", "on", "ignoring", "group_left", "group_right"]);
const otherWords = new Set(["and", "or", "unless", "offset", "bool"]);
/** They may stand before a grouping instead of a bracket. */
const aggregations = new Set(["sum", "min", "max", "avg", "count", "topk", "bottomk"]);

/** Reads an expression. Throws for a text that has other signs. That it is valid PromQL is for `promtool` to say. */
export function needsOf(expression: string): PromqlNeeds {
  const tokens = tokensOf(expression);
  const selectors: Selector[] = [];
  const groupings: string[] = [];
  for (let at = 0; at < tokens.length; at += 1) {
    const word = tokens[at] ?? "";
    const next = tokens[at + 1];
    if (!/^[a-zA-Z_:]/.test(word) || otherWords.has(word)) continue;
    if (groupingWords.has(word)) {
      const end = tokens.indexOf(")", at);
      groupings.push(...tokens.slice(at + 2, end).filter((each) => each !== ","));
      at = end;
    } else if (next === "{") {
      const end = tokens.indexOf("}", at);
      selectors.push({ name: word, matchers: matchersOf(tokens.slice(at + 2, end)) });
      at = end;
    } else if (next !== "(" && !aggregations.has(word)) {
      selectors.push({ name: word, matchers: [] });
    }
  }
  return { selectors, groupings };
}

function tokensOf(expression: string): string[] {
  const found = [...expression.matchAll(token)].map(([text]) => text);
  if (found.join("") !== expression) throw new Error(`not read to the end: ${expression}`);
  return found.filter((text) => text.trim() !== "");
}

function matchersOf(tokens: readonly string[]): Matcher[] {
  const matchers: Matcher[] = [];
  for (let at = 0; at < tokens.length; at += 4) {
    const [label = "", operator = "", value = '""'] = tokens.slice(at, at + 3);
    matchers.push({ label, operator, value: JSON.parse(value) as string });
  }
  return matchers;
}

/** Whether the labels of a series meet all conditions. A label that is absent is an empty text. */
export function isMatch(labels: Readonly<Record<string, string>>, { matchers }: Selector): boolean {
  return matchers.every(({ label, operator, value }) => {
    const has = labels[label] ?? "";
    const isRegex = operator.endsWith("~");
    const isEqual = isRegex ? new RegExp(`^(?:${value})$`).test(has) : has === value;
    return isEqual === !operator.startsWith("!");
  });
}
