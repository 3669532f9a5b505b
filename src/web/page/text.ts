import { inLanguage } from "../language.ts";
import { page as en } from "../words/en.ts";
import { page as ru } from "../words/ru.ts";

/** The words of the key holder's page, in the language of the page. */
export const text = inLanguage(en, ru);
