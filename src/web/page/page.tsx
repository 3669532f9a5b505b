import { signal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import type { Account } from "../../contract/account/account.ts";
import { Button } from "../components/buttons.tsx";
import { PageFrame, type View } from "../components/frame.tsx";
import { Name } from "../components/text.tsx";
import { useResource } from "../resource.ts";
import { formats } from "../language.ts";
import { hrefOf, place } from "../router.ts";
import { createHolding, type Holding } from "./holding.ts";
import { Login } from "./login.tsx";
import { Models } from "./models.tsx";
import { Overview } from "./overview.tsx";
import { ReceiptView } from "./requests/receipt.tsx";
import { Requests } from "./requests/requests.tsx";
import { api, leave, opened, startingKey } from "./session.ts";
import { Snippets } from "./snippets.tsx";
import { Spend } from "./spend.tsx";
import { text } from "./text.ts";
import { TryIt } from "./tryIt/tryIt.tsx";

const start = signal(startingKey());

// An address with a key that is opened in a tab where the page is open already does not load the page again.
addEventListener("hashchange", () => {
  if (!location.hash.startsWith("#key=")) return;
  leave();
  start.value = startingKey();
});

/** The page of who holds a key: the login, or the views of the account. */
export function Page() {
  const account = opened.value;
  return account === undefined ? (
    <Login key={start.value?.key} start={start.value} />
  ) : (
    <Opened key={account.key.id} first={account} />
  );
}

const viewIds = ["", "spend", "requests", "models", "try", "connect"] as const;
type ViewId = (typeof viewIds)[number];

const views: readonly (View & { readonly id: ViewId })[] = viewIds.map((id) => ({
  id,
  text: text.views[id],
  href: hrefOf(id === "" ? [] : [id]),
}));

function Opened({ first }: { first: Account }) {
  const holding = useResource(() => createHolding(api, first), first.key.id);
  useEffect(() => {
    start.value = undefined;
    // The login, which had the focus, is gone.
    document.getElementById("content")?.focus({ preventScroll: true });
  }, []);
  const [view, detail] = place.value.path;
  const current = viewIds.find((id) => id === view) ?? "";
  const { account } = holding.account.value;
  const heading = detail === undefined ? {} : { heading: `${text.views[current]} ${detail}` };
  return (
    <PageFrame
      title={text.title}
      views={views}
      current={current}
      {...heading}
      actions={
        <>
          <Name text={account} />
          <Button size="small" onClick={leave}>
            {text.leave}
          </Button>
        </>
      }
      foot={<span>{text.foot(formats.timeZone)}</span>}
    >
      {viewOf(current, detail, holding)}
    </PageFrame>
  );
}

function viewOf(view: ViewId, detail: string | undefined, holding: Holding) {
  switch (view) {
    case "":
      return <Overview holding={holding} />;
    case "spend":
      return <Spend holding={holding} />;
    case "requests":
      return detail === undefined ? (
        <Requests holding={holding} />
      ) : (
        <ReceiptView key={detail} holding={holding} id={detail} />
      );
    case "models":
      return <Models holding={holding} />;
    case "try":
      return <TryIt holding={holding} />;
    case "connect":
      return <Snippets holding={holding} />;
  }
}
