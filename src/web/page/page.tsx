import { signal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import type { Account } from "../../contract/account/account.ts";
import { Button } from "../components/buttons.tsx";
import { PageFrame, type View } from "../components/frame.tsx";
import { Name } from "../components/text.tsx";
import { useResource } from "../resource.ts";
import { formats } from "../language.ts";
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

/** The page for the holder of a key: the login, or the views of the account. */
export function Page() {
  const account = opened.value;
  return account === undefined ? (
    <Login key={start.value?.key} start={start.value} />
  ) : (
    <Opened key={account.key.id} first={account} />
  );
}

/** In the order of the navigation. */
const viewsOf = (holding: Holding): readonly View[] => [
  { id: "", text: text.views[""], show: () => <Overview holding={holding} /> },
  { id: "spend", text: text.views.spend, show: () => <Spend holding={holding} /> },
  {
    id: "requests",
    text: text.views.requests,
    show: (id) =>
      id === undefined ? (
        <Requests holding={holding} />
      ) : (
        <ReceiptView key={id} holding={holding} id={id} />
      ),
  },
  { id: "models", text: text.views.models, show: () => <Models holding={holding} /> },
  { id: "try", text: text.views.try, show: () => <TryIt holding={holding} /> },
  { id: "connect", text: text.views.connect, show: () => <Snippets holding={holding} /> },
];

function Opened({ first }: { first: Account }) {
  const holding = useResource(() => createHolding(api, first), first.key.id);
  useEffect(() => {
    start.value = undefined;
    // The login, which had the focus, is gone.
    document.getElementById("content")?.focus({ preventScroll: true });
  }, []);
  const { account } = holding.account.value;
  return (
    <PageFrame
      title={text.title}
      views={viewsOf(holding)}
      actions={
        <>
          <Name text={account} />
          <Button size="small" onClick={leave}>
            {text.leave}
          </Button>
        </>
      }
      foot={<span>{text.foot(formats.timeZone)}</span>}
    />
  );
}
