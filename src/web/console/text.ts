import { wordsOf } from "../language.ts";
import { console } from "../words/console.ts";

/** The words of the console, in the language of the page. */
export const text = wordsOf(console);
