import type { Operator } from "../operator.ts";
import type { Overview } from "../../contract/operator/overview.ts";
import type { ReportSpan } from "../../contract/operator/span.ts";
import { isoTime, isoTimeOrNull } from "../../lib/clock.ts";
import { formatRoubles } from "../../lib/money.ts";
import type { Figures, OverviewReport, SampledLatencies } from "../../store/store.ts";
import { figuresForm, savingForm, seriesForm, spanForm } from "./usage.ts";

/** The answer of GET /api/overview. */
export async function overviewOf({ store, actor }: Operator, span: ReportSpan): Promise<Overview> {
  const report = await store.reports.overview(span, actor.at);
  return {
    ...spanForm(report),
    now: { ...figuresForm(report.now), ...latencyForm(report.latencies.now) },
    before: { ...figuresForm(report.before), ...latencyForm(report.latencies.before) },
    series: seriesForm(report.series),
    top: topForm(report.top),
    attention: attentionForm(report.attention),
  };
}

function latencyForm({ firstByte, duration, requests, isAll }: SampledLatencies) {
  return {
    first_byte_ms: firstByte ?? null,
    duration_ms: duration ?? null,
    sample: { requests, is_all: isAll },
  };
}

function topForm({ accounts, keys, models, providers }: OverviewReport["top"]): Overview["top"] {
  return {
    accounts: accounts.map(({ name, figures }) => ({ account: name, ...rankedForm(figures) })),
    keys: keys.map(({ key, account, label, figures }) => ({
      key_id: key,
      account,
      label,
      ...rankedForm(figures),
    })),
    models: models.map(({ name, figures }) => ({ model: name, ...rankedForm(figures) })),
    providers: providers.map(({ name, figures }) => ({
      provider: name === "" ? null : name,
      ...rankedForm(figures),
    })),
  };
}

function rankedForm(figures: Figures) {
  return {
    requests: figures.requests,
    failed: figures.failed,
    charged_rub: formatRoubles(figures.charged),
    operator_cost_rub: formatRoubles(figures.operatorCost),
    prompt_tokens: figures.promptTokens,
    cached_tokens: figures.cachedTokens,
    ...savingForm(figures),
  };
}

function attentionForm(attention: OverviewReport["attention"]): Overview["attention"] {
  const { lowAccounts, expiringKeys, failingProviders, oldHolds, estimated, writeOffs } = attention;
  return {
    low_accounts: lowAccounts.map((low) => ({
      account: low.account,
      balance_rub: formatRoubles(low.balance),
      available_rub: formatRoubles(low.available),
      charged_7d_rub: formatRoubles(low.charged),
      days_left: Math.round(low.daysLeft * 10) / 10,
    })),
    expiring_keys: expiringKeys.map((key) => ({
      key_id: key.key,
      account: key.account,
      label: key.label,
      expires_at: isoTime(key.expiresAt),
      last_used_at: isoTimeOrNull(key.lastUsedAt),
      is_replaced: key.isReplaced,
    })),
    failing_providers: [...failingProviders],
    old_holds: oldHolds.map(({ id, at, account, key, model, hold }) => ({
      id,
      at: isoTime(at),
      account,
      key_id: key,
      model,
      hold_rub: formatRoubles(hold),
    })),
    estimated: {
      since: isoTime(estimated.since),
      requests: estimated.requests,
      charged_rub: formatRoubles(estimated.amount),
    },
    write_offs: {
      since: isoTime(writeOffs.since),
      requests: writeOffs.requests,
      write_off_rub: formatRoubles(writeOffs.amount),
    },
  };
}
