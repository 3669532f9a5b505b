import type { AccountDocument } from "../../../contract/operator/account.ts";
import type { ChangedBalanceDocument } from "../../../contract/operator/ledger.ts";
import { ConfirmChange } from "../../components/dialog.tsx";
import { TextField } from "../../components/fields.tsx";
import { visibleText } from "../../components/text.tsx";
import { Money } from "../../components/values.tsx";
import { formats } from "../../language.ts";
import { toast } from "../../toasts.ts";
import { amountText, minus, plus } from "../amounts.ts";
import { newRef, RefAndNote, requireApplied, useForm } from "../forms.tsx";
import { text } from "../text.ts";
import { AccountState } from "./accounts.tsx";

/** A change of an account that a dialog asks for. */
export type AccountChange = "credit" | "debit" | "overdraft" | "disable" | "enable";

export interface ChangeAccountProps {
  /** As it is now: the figures before the change follow it. */
  readonly account: AccountDocument;
  readonly onClose: () => void;
  /** After the change. */
  readonly onDone: () => void;
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
    case "disable":
    case "enable":
      return <ChangeState isDisabling={change === "disable"} {...props} />;
  }
}

function ChangeBalance({
  kind,
  account,
  onClose,
  onDone,
}: ChangeAccountProps & { kind: "credit" | "debit" }) {
  const form = useForm({ amount: "", ref: newRef(), note: "" });
  const words = text.account[kind];
  const amount = amountText(form.typed("amount"));
  const moved = kind === "credit" ? plus : minus;
  const after = (before: string) => {
    const sum = moved(before, amount);
    return sum && <Money amount={sum} isExact />;
  };
  const confirm = async (): Promise<void> => {
    const changed = await form.send<ChangedBalanceDocument>(pathOf(account, kind), {
      amount,
      ref: form.typed("ref"),
      note: form.typed("note"),
    });
    if (changed === undefined) return;
    onDone();
    requireApplied(changed);
    toast(words.done(formats.money(changed.amount_rub, "exact"), visibleText(changed.account)));
    onClose();
  };
  return (
    <ConfirmChange
      title={words.title(visibleText(account.name))}
      confirm={words.confirm}
      isDanger={kind === "debit"}
      canConfirm={amount !== "" && form.typed("ref") !== ""}
      onConfirm={confirm}
      onClose={onClose}
      figures={[
        {
          label: text.accounts.balance,
          before: <Money amount={account.balance_rub} isExact />,
          after: after(account.balance_rub),
        },
        {
          label: text.accounts.available,
          before: <Money amount={account.available_rub} isExact />,
          after: after(account.available_rub),
        },
      ]}
    >
      <TextField
        label={text.account.amount}
        unit="₽"
        inputMode="decimal"
        isFirst
        isRequired
        {...form.field("amount")}
      />
      <RefAndNote form={form} />
    </ConfirmChange>
  );
}

function ChangeOverdraft({ account, onClose, onDone }: ChangeAccountProps) {
  const form = useForm({ overdraft: account.overdraft_rub });
  const words = text.account.changeOverdraft;
  const overdraft = amountText(form.typed("overdraft"));
  const without = minus(account.available_rub, account.overdraft_rub);
  const available = without && plus(without, overdraft);
  const confirm = async (): Promise<void> => {
    const changed = await form.send<AccountDocument>(pathOf(account, "settings"), { overdraft });
    if (changed === undefined) return;
    toast(words.done(formats.money(changed.overdraft_rub, "exact"), visibleText(changed.name)));
    onDone();
    onClose();
  };
  return (
    <ConfirmChange
      title={words.title(visibleText(account.name))}
      confirm={words.confirm}
      canConfirm={overdraft !== "" && available !== account.available_rub}
      onConfirm={confirm}
      onClose={onClose}
      figures={[
        {
          label: text.accounts.overdraft,
          before: <Money amount={account.overdraft_rub} isExact />,
          after: available && <Money amount={overdraft} isExact />,
        },
        {
          label: text.accounts.available,
          before: <Money amount={account.available_rub} isExact />,
          after: available && <Money amount={available} isExact />,
        },
      ]}
    >
      <TextField
        label={text.accounts.overdraft}
        hint={text.accounts.overdraftHint}
        unit="₽"
        inputMode="decimal"
        isFirst
        isRequired
        {...form.field("overdraft")}
      />
    </ConfirmChange>
  );
}

function ChangeState({
  isDisabling,
  account,
  onClose,
  onDone,
}: ChangeAccountProps & { isDisabling: boolean }) {
  const form = useForm({});
  const words = isDisabling ? text.account.disable : text.account.enable;
  const confirm = async (): Promise<void> => {
    const path = pathOf(account, isDisabling ? "disable" : "enable");
    const changed = await form.send<AccountDocument>(path, {});
    if (changed === undefined) return;
    toast(words.done(visibleText(changed.name)));
    onDone();
    onClose();
  };
  return (
    <ConfirmChange
      title={words.title(visibleText(account.name))}
      confirm={words.confirm}
      isDanger={isDisabling}
      onConfirm={confirm}
      onClose={onClose}
      figures={[
        {
          label: text.accounts.state,
          before: <AccountState isDisabled={account.disabled} />,
          after: <AccountState isDisabled={isDisabling} />,
        },
      ]}
    >
      <p>{words.meaning}</p>
    </ConfirmChange>
  );
}

function pathOf(account: AccountDocument, change: AccountChange | "settings"): string {
  return `/api/accounts/${encodeURIComponent(account.name)}/${change}`;
}
