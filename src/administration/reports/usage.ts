import type { Overview } from "../../contract/operator/overview.ts";
import { countsOf } from "../../contract/figures.ts";
import { isoTime } from "../../lib/clock.ts";
import { formatRoubles } from "../../lib/money.ts";
import type { Figures, ReportedUsage } from "../../store/store.ts";

// The parts that the overview and the page of an account share.

/** What the operator keeps of the charges. */
function margin({ charged, refunded, operatorCost }: Figures): bigint {
  return charged - refunded - operatorCost;
}

export function spanForm({ span }: Pick<ReportedUsage, "span">) {
  return {
    span: span.span,
    from: isoTime(span.from),
    // The span of the store ends after this millisecond.
    to: isoTime(span.to - 1),
    step: span.step,
    times: span.times.map(isoTime),
  };
}

export function savingForm(figures: Pick<Figures, "cacheSaved" | "operatorSaved">) {
  return {
    cache_saved_rub: formatRoubles(figures.cacheSaved),
    operator_saved_rub: formatRoubles(figures.operatorSaved),
  };
}

export function figuresForm({ from, to, figures }: ReportedUsage["now"]) {
  return {
    from: isoTime(from),
    to: isoTime(to - 1),
    requests: figures.requests,
    failed: figures.failed,
    ...countsOf(figures),
    charged_rub: formatRoubles(figures.charged),
    refunded_rub: formatRoubles(figures.refunded),
    operator_cost_rub: formatRoubles(figures.operatorCost),
    ...savingForm(figures),
    margin_rub: formatRoubles(margin(figures)),
    write_off_rub: formatRoubles(figures.writeOff),
  };
}

export function seriesForm({ total, models }: ReportedUsage["series"]): Overview["series"] {
  const counts = (of: (step: Figures) => number) => total.map(of);
  const amounts = (of: (step: Figures) => bigint) => total.map((step) => formatRoubles(of(step)));
  return {
    requests: counts((step) => step.requests),
    failed: counts((step) => step.failed),
    prompt_tokens: counts((step) => step.promptTokens),
    completion_tokens: counts((step) => step.completionTokens),
    charged_rub: amounts((step) => step.charged),
    refunded_rub: amounts((step) => step.refunded),
    operator_cost_rub: amounts((step) => step.operatorCost),
    margin_rub: amounts(margin),
    models: models.map(({ model, steps }) => ({
      model,
      requests: steps.map((step) => step.requests),
      tokens: steps.map((step) => step.promptTokens + step.completionTokens),
      charged_rub: steps.map((step) => formatRoubles(step.charged)),
    })),
  };
}
