export type Language = "en" | "ru";

/** A text, a list of texts, or a function that makes a text. */
type Word = string | readonly string[] | ((...args: never[]) => string);

/** All words of a page in both languages, by their names. */
export interface Tree {
  readonly [name: string]: readonly [en: Word, ru: Word] | Tree;
}

/** The words of one language. A pair of words that differ in kind, or in the parameters, has none. */
export type Chosen<Words> = Words extends readonly [infer English, infer Russian]
  ? Russian extends Wide<English>
    ? Wide<English>
    : never
  : { readonly [Name in keyof Words]: Chosen<Words[Name]> };

type Wide<English> = English extends string
  ? string
  : English extends readonly string[]
    ? readonly string[]
    : English;

export function inLanguage<Words extends Tree>(words: Words, language: Language): Chosen<Words> {
  const chosen = Object.entries(words).map(([name, word]) => [
    name,
    isPair(word) ? word[language === "en" ? 0 : 1] : inLanguage(word, language),
  ]);
  return Object.fromEntries(chosen) as Chosen<Words>;
}

function isPair(word: Tree[string]): word is readonly [Word, Word] {
  return Array.isArray(word);
}

/** The forms of a noun by plural category: https://cldr.unicode.org/index/cldr-spec/plural-rules */
type PluralForms = Partial<Readonly<Record<Intl.LDMLPluralRule, string>>> & {
  readonly other: string;
};

/** Makes the function that writes a number with its noun, such as `5 requests`. */
function countedIn(locale: Language): (count: number, forms: PluralForms) => string {
  const rules = new Intl.PluralRules(locale);
  const numbers = new Intl.NumberFormat(locale);
  return (count, forms) => `${numbers.format(count)} ${forms[rules.select(count)] ?? forms.other}`;
}

export const inEnglish = countedIn("en");
export const inRussian = countedIn("ru");
