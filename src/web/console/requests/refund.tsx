import type { AccountDetail } from "../../../contract/operator/accountDetail.ts";
import type { RefundDocument } from "../../../contract/operator/ledger.ts";
import type { RequestDetailDocument } from "../../../contract/operator/request.ts";
import { ConfirmChange } from "../../components/dialog.tsx";
import { TextField } from "../../components/fields.tsx";
import { Skeleton } from "../../components/states.tsx";
import { visibleText } from "../../components/text.tsx";
import { Money } from "../../components/values.tsx";
import { formats } from "../../language.ts";
import { createResource, useResource } from "../../resource.ts";
import { toast } from "../../toasts.ts";
import { amountText, minus, plus } from "../amounts.ts";
import { newRef, RefAndNote, requireApplied, useForm } from "../forms.tsx";
import { followStore } from "../live.ts";
import { api } from "../session.ts";
import { text } from "../text.ts";

const words = text.request.refund;

export interface RefundProps {
  readonly request: RequestDetailDocument;
  readonly onClose: () => void;
  /** After the refund. */
  readonly onDone: () => void;
}

/** Gives back a part of a charge, or all that is left of it. */
export function Refund({ request, onClose, onDone }: RefundProps) {
  const left = minus(request.cost_rub, request.refunded_rub) ?? "";
  const form = useForm({ amount: left, ref: newRef(), note: "" });
  const account = useResource(() =>
    followStore(
      createResource((abort) =>
        api.get<AccountDetail>(`/api/accounts/${encodeURIComponent(request.account)}`, {}, abort),
      ),
    ),
  );
  const balance = account.data.value?.account.balance_rub;
  const amount = amountText(form.typed("amount"));
  const shown = (sum: string | undefined) => sum && <Money amount={sum} isExact />;
  const refund = async (): Promise<void> => {
    const refunded = await form.send<RefundDocument>(
      `/api/requests/${encodeURIComponent(request.id)}/refund`,
      { amount, ref: form.typed("ref"), note: form.typed("note") },
    );
    if (refunded === undefined) return;
    onDone();
    requireApplied(refunded);
    toast(words.done(formats.money(refunded.amount_rub, "exact"), visibleText(refunded.account)));
    onClose();
  };
  return (
    <ConfirmChange
      title={words.title}
      confirm={words.confirm}
      canConfirm={amount !== "" && form.typed("ref") !== ""}
      onConfirm={refund}
      onClose={onClose}
      figures={[
        {
          label: words.refunded,
          before: <Money amount={request.refunded_rub} isExact />,
          after: shown(plus(request.refunded_rub, amount)),
        },
        {
          label: words.left,
          before: <Money amount={left} isExact />,
          after: shown(minus(left, amount)),
        },
        {
          label: words.balance(visibleText(request.account)),
          before: balance === undefined ? <Skeleton /> : <Money amount={balance} isExact />,
          after: balance === undefined ? undefined : shown(plus(balance, amount)),
        },
      ]}
    >
      <TextField
        label={text.account.amount}
        hint={words.amountHint}
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
