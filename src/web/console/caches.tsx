import type { Overview } from "../../contract/operator/overview.ts";
import { Figure } from "../components/figures.tsx";
import { formats } from "../language.ts";
import { text } from "./text.ts";

/** The share of prompt tokens from caches, and what the caches saved. */
export function CachedShare({ of }: { of: CacheFigures | undefined }) {
  return (
    <Figure
      label={text.overview.cached}
      value={of && (shareOf(of) ?? text.none)}
      note={
        of &&
        of.cached_tokens > 0 &&
        text.overview.cachesSave(
          formats.money(of.cache_saved_rub),
          formats.money(of.operator_saved_rub),
        )
      }
    />
  );
}

type CacheFigures = Pick<
  Overview["now"],
  "prompt_tokens" | "cached_tokens" | "cache_saved_rub" | "operator_saved_rub"
>;

/** Undefined without prompt tokens. */
export function shareOf({
  prompt_tokens: all,
  cached_tokens: cached,
}: Pick<CacheFigures, "prompt_tokens" | "cached_tokens">): string | undefined {
  return all === 0 ? undefined : formats.percent(cached / all);
}
