/** What a metered provider generates for one request. The prompt of the request says it. */
export interface PlannedAnswer {
  /** By which the provider's count is found; without spaces. */
  readonly name: string;
  /** What the provider counts for the prompt. */
  readonly promptTokens: number;
  /** From the request to the first token, in milliseconds. */
  readonly firstMs: number;
  /** Reasoning that the answer does not show. */
  readonly hiddenTokens: number;
  readonly visibleTokens: number;
  /** The speed of this answer, as a share of the provider's usual one. */
  readonly pace?: number;
}

const marker = /\[answer (\S+) prompt=(\d+) first=(\d+) hidden=(\d+) visible=(\d+) pace=([\d.]+)\]/;

/** The line of a prompt that tells the provider what to answer. */
function planLine(plan: PlannedAnswer): string {
  const { name, promptTokens, firstMs, hiddenTokens, visibleTokens, pace = 1 } = plan;
  return `[answer ${name} prompt=${promptTokens} first=${firstMs} hidden=${hiddenTokens} visible=${visibleTokens} pace=${pace}]`;
}

/** The plan in the text of a request; undefined where there is none. */
export function planIn(text: string): PlannedAnswer | undefined {
  const [, name, ...figures] = marker.exec(text) ?? [];
  if (name === undefined) return undefined;
  const [promptTokens = 0, firstMs = 0, hiddenTokens = 0, visibleTokens = 0, pace = 1] =
    figures.map(Number);
  return { name, promptTokens, firstMs, hiddenTokens, visibleTokens, pace };
}

/** How long the whole answer takes, in milliseconds. */
export function answerMs(plan: PlannedAnswer, tokensPerSecond: number): number {
  const { firstMs, hiddenTokens, visibleTokens } = plan;
  return firstMs + tokensMs(plan, hiddenTokens + visibleTokens, tokensPerSecond);
}

/** How long so many tokens of the answer take, in milliseconds. */
export function tokensMs(
  { pace = 1 }: PlannedAnswer,
  tokens: number,
  tokensPerSecond: number,
): number {
  return (tokens * 1000) / (tokensPerSecond * pace);
}

/** Words as tokenizers cut English prose, with the space before them: 4.5 bytes each on average. */
const words = (
  " the toll of a road is paid where it begins , and those who take more than they need " +
  " should pay for it in full . A gate keeps count : each cart that comes through has its own line" +
  " in the ledger , which nobody may change later . Some travellers turn around half way ; their" +
  " share of the journey is charged by distance , not by promise ."
)
  .split(/(?= )/)
  .filter((word) => word.trim() !== "");

/** The text of these tokens of an answer. */
export function tokenText(from: number, count: number): string {
  let text = "";
  for (let at = from; at < from + count; at += 1) text += words[at % words.length] ?? "";
  return text;
}

/** A prompt that is estimated at so many tokens by its bytes, and whose answer is planned. */
export function promptFor(plan: PlannedAnswer, estimatedTokens = plan.promptTokens): string {
  const line = planLine(plan);
  const bytes = Math.max(0, estimatedTokens * 4 - line.length);
  const sentence = tokenText(0, words.length);
  return line + sentence.repeat(Math.ceil(bytes / sentence.length)).slice(0, bytes);
}
