import type { ComponentChildren } from "preact";
import type { Overview } from "../../contract/operator/overview.ts";
import { Panel } from "../components/frame.tsx";
import { EmptyState, SkeletonBlock } from "../components/states.tsx";
import { Name } from "../components/text.tsx";
import { Money, Tag, type TagTone, Time } from "../components/values.tsx";
import { formats } from "../language.ts";
import { hrefOf } from "../router.ts";
import { text } from "./text.ts";

type Report = Overview["attention"];

/** One thing that needs a look: what kind, a link to it, and the figures. */
interface Item {
  readonly id: string;
  readonly tone: TagTone;
  readonly kind: string;
  readonly href: string;
  readonly name: string;
  readonly figures: ComponentChildren;
}

/** What needs a look, the most urgent first. */
export function Attention({ attention }: { attention: Report | undefined }) {
  const items = attention && itemsOf(attention);
  return (
    <Panel title={text.attention.title}>
      {items === undefined && <SkeletonBlock rem={4} />}
      {items?.length === 0 && <EmptyState title={text.attention.none} />}
      {items !== undefined && items.length > 0 && (
        <ul class="attention">
          {items.map(({ id, tone, kind, href, name, figures }) => (
            <li key={id}>
              <Tag tone={tone}>{kind}</Tag>
              <a href={href}>
                <Name text={name} />
              </a>
              <span class="muted">{figures}</span>
            </li>
          ))}
        </ul>
      )}
    </Panel>
  );
}

function itemsOf(report: Report): readonly Item[] {
  const { estimated, write_offs } = report;
  return [
    ...report.failing_providers.map(({ provider, failed, attempts }): Item => ({
      id: `provider ${provider}`,
      tone: "bad",
      kind: text.attention.failing,
      href: hrefOf(["providers"]),
      name: provider,
      figures: text.attention.failedOf(formats.count(failed), formats.count(attempts)),
    })),
    ...report.low_accounts.map((low): Item => ({
      id: `account ${low.account}`,
      tone: low.days_left < 1 ? "bad" : "warning",
      kind: text.attention.low,
      href: hrefOf(["accounts", low.account]),
      name: low.account,
      figures: (
        <>
          <Money amount={low.available_rub} /> · {text.attention.daysLeft(low.days_left)}
        </>
      ),
    })),
    ...report.old_holds.map((hold): Item => ({
      id: `hold ${hold.id}`,
      tone: "warning",
      kind: text.attention.oldHold,
      href: hrefOf(["requests", hold.id]),
      name: hold.account,
      figures: (
        <>
          <Money amount={hold.hold_rub} /> · <Time at={hold.at} form="relative" />
        </>
      ),
    })),
    ...report.expiring_keys
      .filter((key) => !key.is_replaced)
      .map((key): Item => ({
        id: `key ${key.key_id}`,
        tone: "warning",
        kind: text.attention.expiring,
        href: hrefOf(["keys", key.key_id]),
        name: key.label ?? key.key_id,
        figures: (
          <>
            <Name text={key.account} /> · <Time at={key.expires_at} form="relative" />
          </>
        ),
      })),
    ...counted("estimated", text.attention.estimated, estimated, estimated.charged_rub),
    ...counted("writeOffs", text.attention.writeOffs, write_offs, write_offs.write_off_rub),
  ];
}

function counted(
  id: string,
  kind: string,
  { requests, since }: { requests: number; since: string },
  roubles: string,
): readonly Item[] {
  if (requests === 0) return [];
  return [
    {
      id,
      tone: "info",
      kind,
      href: hrefOf(["requests"], { since }),
      name: text.attention.requests(requests),
      figures: <Money amount={roubles} />,
    },
  ];
}
