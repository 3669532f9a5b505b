import { wordsOf } from "../language.ts";
import { page } from "../words/page.ts";
import { visibleText } from "../components/text.tsx";

/** The words of the key holder's page, in the language of the page. */
export const text = wordsOf(page);

/** More characters of an option would make its list wider than the window. */
const OPTION_CHARACTERS_MAX = 80;

/** A name from elsewhere, such as that of a model, in a list of options. */
export function optionText(name: string): string {
  const shown = visibleText(name);
  return shown.length <= OPTION_CHARACTERS_MAX
    ? shown
    : `${shown.slice(0, OPTION_CHARACTERS_MAX)}…`;
}
