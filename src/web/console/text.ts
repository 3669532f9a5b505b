import { inLanguage } from "../language.ts";
import { console as en } from "../words/en.ts";
import { console as ru } from "../words/ru.ts";

/** The words of the console, in the language of the page. */
export const text = inLanguage(en, ru);
