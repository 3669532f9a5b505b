import { createFormats, type Formats } from "./formats.ts";
import { shared as en } from "./words/en.ts";
import { shared as ru } from "./words/ru.ts";

export type Language = "en" | "ru";

const chosen = chooseLanguage(navigator.languages);

/** The language of the page: the first one of the browser that the page speaks, else English. */
export const language: Language = chosen.language;
document.documentElement.lang = chosen.language;

/** How that language writes figures. */
export const formats: Formats = createFormats(chosen.locale);

/** The words of both pages. A page makes its own with `inLanguage`. */
export const words = inLanguage(en, ru);

/** The words in the language of the page. */
export function inLanguage<Words>(english: Words, russian: Words): Words {
  return language === "ru" ? russian : english;
}

/** `locale` is the browser's own tag, such as `en-GB`, so that dates have the form of the region. */
function chooseLanguage(tags: readonly string[]): { language: Language; locale: string } {
  for (const locale of tags) {
    const language = locale.toLowerCase().split("-")[0];
    if (language === "en" || language === "ru") return { language, locale };
  }
  return { language: "en", locale: "en" };
}
