import type { ComponentChildren } from "preact";
import type { ConsoleState } from "../../contract/operator/consoleState.ts";
import { Button } from "../components/buttons.tsx";
import { PageFrame, ViewHead, type View } from "../components/frame.tsx";
import { Notice, SkeletonBlock } from "../components/states.tsx";
import { FreeText } from "../components/text.tsx";
import { formats } from "../language.ts";
import { useResource, createResource } from "../resource.ts";
import { Account } from "./accounts/account.tsx";
import { Accounts } from "./accounts/accounts.tsx";
import { Audit } from "./audit.tsx";
import { Key } from "./keys/key.tsx";
import { Keys } from "./keys/keys.tsx";
import { followStore } from "./live.ts";
import { Overview } from "./overview.tsx";
import { Providers } from "./providers.tsx";
import { Request } from "./requests/request.tsx";
import { Requests } from "./requests/requests.tsx";
import { call } from "./call.ts";
import { endSession, isLost, sessionState } from "./session.ts";
import { text } from "./text.ts";
import { Vouchers } from "./vouchers/vouchers.tsx";

/** The operator's console: its views while the session is open, else why they are not there. */
export function Console() {
  switch (sessionState.value) {
    case "opening":
      return (
        <Outside>
          <SkeletonBlock rem={12} />
        </Outside>
      );
    case "open":
      return <Opened />;
    case "over":
      return (
        <Outside>
          <ViewHead title={text.session.over} text={text.session.howToOpen} />
          <p>
            <code>tollgate console</code>
          </p>
        </Outside>
      );
  }
}

function Outside({ children }: { children: ComponentChildren }) {
  return <PageFrame title={text.title}>{children}</PageFrame>;
}

/** In the order of the navigation. */
const views: readonly View[] = [
  { id: "", text: text.views[""], show: () => <Overview /> },
  {
    id: "accounts",
    text: text.views.accounts,
    show: (name) => (name === undefined ? <Accounts /> : <Account key={name} name={name} />),
  },
  {
    id: "keys",
    text: text.views.keys,
    show: (id) => (id === undefined ? <Keys /> : <Key key={id} id={id} />),
  },
  {
    id: "requests",
    text: text.views.requests,
    show: (id) => (id === undefined ? <Requests /> : <Request key={id} id={id} />),
  },
  { id: "providers", text: text.views.providers, show: () => <Providers /> },
  { id: "vouchers", text: text.views.vouchers, show: () => <Vouchers /> },
  { id: "audit", text: text.views.audit, show: () => <Audit /> },
];

function Opened() {
  const { data } = useResource(() =>
    followStore(createResource((abort) => call("GET /api/state", {}, abort))),
  );
  const state = data.value;
  return (
    <PageFrame
      title={text.title}
      views={views}
      actions={
        <Button size="small" onClick={() => void endSession()}>
          {text.session.end}
        </Button>
      }
      foot={
        state && (
          <span>
            {text.foot(state, formats.timeZone)}
            {state.standby?.problem === null && ` ${standbyText(state.standby)}`}
          </span>
        )
      }
    >
      {isLost.value && <Notice tone="failure" title={text.session.lost} />}
      {state?.standby && <StandbyNotice standby={state.standby} />}
    </PageFrame>
  );
}

type Standby = NonNullable<ConsoleState["standby"]>;

/** A notice above the figures says when they are older than this. */
const BEHIND_MS_MAX = 10_000;

/** Tells that the figures are old, or that they are not from the standby that the config names. */
function StandbyNotice({ standby }: { standby: Standby }) {
  const { database, behind_ms: behindMs, problem } = standby;
  if (problem !== null)
    return (
      <Notice tone="warning" title={text.standby.unused(database)}>
        <FreeText text={problem} />
      </Notice>
    );
  if (behindMs !== null && behindMs <= BEHIND_MS_MAX) return null;
  return <Notice tone="warning" title={standbyText(standby)} />;
}

function standbyText({ database, behind_ms: behindMs }: Standby): string {
  return behindMs === null
    ? text.standby.unknown(database)
    : text.standby.behind(database, formats.duration(behindMs));
}
