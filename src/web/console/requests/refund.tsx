import type { RequestDetailDocument } from "../../../contract/operator/request.ts";
import { Skeleton } from "../../components/states.tsx";
import { visibleText } from "../../components/text.tsx";
import { Money } from "../../components/values.tsx";
import { formats } from "../../language.ts";
import { createResource, useResource } from "../../resource.ts";
import { minus, plus } from "../amounts.ts";
import { call } from "../call.ts";
import { followStore } from "../live.ts";
import {
  OperationDialog,
  refAndNote,
  requireApplied,
  type DialogEnds,
} from "../operationDialog.tsx";
import { text } from "../text.ts";

const words = text.request.refund;

export interface RefundProps extends DialogEnds {
  readonly request: RequestDetailDocument;
}

/** Gives back a part of a charge, or all that is left of it. */
export function Refund({ request, ...ends }: RefundProps) {
  const left = minus(request.cost_rub, request.refunded_rub) ?? "";
  const { account } = request;
  const report = useResource(() =>
    followStore(createResource((abort) => call("GET /api/accounts/:account", { account }, abort))),
  );
  const balance = report.data.value?.account.balance_rub;
  const shown = (sum: string | undefined) => sum && <Money amount={sum} isExact />;
  return (
    <OperationDialog
      call="POST /api/requests/:id/refund"
      at={{ id: request.id }}
      {...ends}
      title={words.title}
      confirm={words.confirm}
      fields={[
        {
          name: "amount",
          label: text.account.amount,
          hint: words.amountHint,
          kind: "money",
          value: left,
          isFirst: true,
          isRequired: true,
        },
        ...refAndNote(),
      ]}
      figures={({ amount }) => [
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
          label: words.balance(visibleText(account)),
          before: balance === undefined ? <Skeleton /> : <Money amount={balance} isExact />,
          after: balance === undefined ? undefined : shown(plus(balance, amount)),
        },
      ]}
      done={(answer) => {
        const refunded = requireApplied(answer);
        return words.done(
          formats.money(refunded.amount_rub, "exact"),
          visibleText(refunded.account),
        );
      }}
    />
  );
}
