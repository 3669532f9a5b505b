import { createFormats, type Formats } from "./formats.ts";
import { bothPages } from "./words/bothPages.ts";
import { inLanguage, type Chosen, type Language, type Tree } from "./words/words.ts";

const chosen = chooseLanguage(navigator.languages);

/** The language of the page: the first one of the browser that the page speaks, else English. */
export const language: Language = chosen.language;
document.documentElement.lang = chosen.language;

/** How that language writes figures. */
export const formats: Formats = createFormats(chosen.locale);

/** The words of both pages, in the language of the page. */
export const words = wordsOf(bothPages);

/** The words in the language of the page. */
export function wordsOf<Words extends Tree>(tree: Words): Chosen<Words> {
  return inLanguage(tree, chosen.language);
}

/** The word of a pair in the language of the page. */
export function wordOf([english, russian]: readonly [en: string, ru: string]): string {
  return chosen.language === "en" ? english : russian;
}

/** `locale` is the browser's own tag, such as `en-GB`, so that dates have the form of the region. */
function chooseLanguage(tags: readonly string[]): { language: Language; locale: string } {
  for (const locale of tags) {
    const language = locale.toLowerCase().split("-")[0];
    if (language === "en" || language === "ru") return { language, locale };
  }
  return { language: "en", locale: "en" };
}
