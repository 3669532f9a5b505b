import type { AccountDocument } from "../../../contract/operator/account.ts";
import { visibleText } from "../../components/text.tsx";
import { Money } from "../../components/values.tsx";
import { formats } from "../../language.ts";
import { go } from "../../router.ts";
import { minus, plus } from "../amounts.ts";
import {
  OperationDialog,
  refAndNote,
  requireApplied,
  type DialogEnds,
} from "../operationDialog.tsx";
import { text } from "../text.ts";
import { AccountState } from "./accountState.tsx";

/** A change of an account that a dialog asks for. */
export type AccountChange = "credit" | "debit" | "overdraft" | "plan" | "disable" | "enable";

export interface ChangeAccountProps extends DialogEnds {
  /** The account as it is now. The dialog shows its figures before the change. */
  readonly account: AccountDocument;
}

/** Creates an account and shows it. */
export function CreateAccount(ends: DialogEnds) {
  const words = text.accounts;
  return (
    <OperationDialog
      call="POST /api/accounts"
      {...ends}
      title={words.create}
      confirm={words.confirmCreate}
      fields={[
        {
          name: "name",
          label: words.name,
          hint: words.nameHint,
          kind: "code",
          isFirst: true,
          isRequired: true,
        },
        {
          name: "overdraft",
          label: words.overdraft,
          hint: words.overdraftHint,
          kind: "money",
          isOptional: true,
        },
      ]}
      done={({ name }) => words.created(name)}
      onAnswer={({ name }) => go(["accounts", name])}
    />
  );
}

/** The dialog of a change. */
export function ChangeAccount({
  change,
  ...props
}: ChangeAccountProps & { change: AccountChange }) {
  switch (change) {
    case "credit":
    case "debit":
      return <ChangeBalance kind={change} {...props} />;
    case "overdraft":
      return <ChangeOverdraft {...props} />;
    case "plan":
      return <ChangePlan {...props} />;
    case "disable":
    case "enable":
      return <ChangeState kind={change} {...props} />;
  }
}

function ChangeBalance({
  kind,
  account,
  ...ends
}: ChangeAccountProps & { kind: "credit" | "debit" }) {
  const words = text.account[kind];
  const moved = kind === "credit" ? plus : minus;
  const figure = (label: string, before: string, amount: string) => {
    return { label, before: exact(before), after: exact(moved(before, amount)) };
  };
  return (
    <OperationDialog
      call={`POST /api/accounts/:account/${kind}`}
      at={{ account: account.name }}
      {...ends}
      title={words.title(visibleText(account.name))}
      confirm={words.confirm}
      isDanger={kind === "debit"}
      fields={[
        {
          name: "amount",
          label: text.account.amount,
          kind: "money",
          isFirst: true,
          isRequired: true,
        },
        ...refAndNote(),
      ]}
      figures={({ amount }) => [
        figure(text.accounts.balance, account.balance_rub, amount),
        figure(text.accounts.available, account.available_rub, amount),
      ]}
      done={(answer) => {
        const changed = requireApplied(answer);
        return words.done(formats.money(changed.amount_rub, "exact"), visibleText(changed.account));
      }}
    />
  );
}

function ChangeOverdraft({ account, ...ends }: ChangeAccountProps) {
  const words = text.account.changeOverdraft;
  const without = minus(account.available_rub, account.overdraft_rub);
  const availableWith = (overdraft: string) => without && plus(without, overdraft);
  return (
    <OperationDialog
      call="POST /api/accounts/:account/settings"
      at={{ account: account.name }}
      {...ends}
      title={words.title(visibleText(account.name))}
      confirm={words.confirm}
      fields={[
        {
          name: "overdraft",
          label: text.accounts.overdraft,
          hint: text.accounts.overdraftHint,
          kind: "money",
          value: account.overdraft_rub,
          isFirst: true,
          isRequired: true,
        },
      ]}
      canConfirm={({ overdraft }) => availableWith(overdraft) !== account.available_rub}
      figures={({ overdraft }) => {
        const available = availableWith(overdraft);
        return [
          {
            label: text.accounts.overdraft,
            before: exact(account.overdraft_rub),
            after: available && exact(overdraft),
          },
          {
            label: text.accounts.available,
            before: exact(account.available_rub),
            after: exact(available),
          },
        ];
      }}
      done={({ name, overdraft_rub }) =>
        words.done(formats.money(overdraft_rub, "exact"), visibleText(name))
      }
    />
  );
}

/** The account has the prices of this plan from the next request on. Without one it has those of the models. */
function ChangePlan({ account, ...ends }: ChangeAccountProps) {
  const words = text.account.changePlan;
  return (
    <OperationDialog
      call="POST /api/accounts/:account/settings"
      at={{ account: account.name }}
      {...ends}
      title={words.title(visibleText(account.name))}
      confirm={words.confirm}
      fields={[
        {
          name: "plan",
          label: text.accounts.plan,
          hint: text.accounts.planHint,
          kind: "code",
          value: account.plan ?? "none",
          isFirst: true,
          isRequired: true,
        },
      ]}
      canConfirm={({ plan }) => plan !== (account.plan ?? "none")}
      done={({ name, plan }) => words.done(visibleText(plan ?? "none"), visibleText(name))}
    />
  );
}

function ChangeState({
  kind,
  account,
  ...ends
}: ChangeAccountProps & { kind: "disable" | "enable" }) {
  const words = text.account[kind];
  return (
    <OperationDialog
      call={`POST /api/accounts/:account/${kind}`}
      at={{ account: account.name }}
      {...ends}
      title={words.title(visibleText(account.name))}
      confirm={words.confirm}
      isDanger={kind === "disable"}
      intro={words.meaning}
      figures={() => [
        {
          label: text.accounts.state,
          before: <AccountState isDisabled={account.disabled} />,
          after: <AccountState isDisabled={kind === "disable"} />,
        },
      ]}
      done={({ name }) => words.done(visibleText(name))}
    />
  );
}

function exact(amount: string | undefined) {
  return amount && <Money amount={amount} isExact />;
}
