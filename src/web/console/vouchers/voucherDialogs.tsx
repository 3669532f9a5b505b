import type {
  CreatedVoucherDocument,
  VoucherDocument,
} from "../../../contract/operator/voucher.ts";
import { CopyButton } from "../../components/buttons.tsx";
import { ScrollArea } from "../../components/table.tsx";
import { tableCsv, type Column } from "../../components/table.tsx";
import { Money } from "../../components/values.tsx";
import { times } from "../amounts.ts";
import { OnceDialog, OperationDialog, type DialogEnds } from "../operationDialog.tsx";
import { text } from "../text.ts";
import { VoucherState } from "./voucherState.tsx";

const words = text.vouchers;

/** Creates vouchers, and shows their codes once. */
export function CreateVouchers(ends: DialogEnds) {
  return (
    <OperationDialog
      call="POST /api/vouchers"
      {...ends}
      title={words.create}
      confirm={words.confirmCreate}
      fields={[
        [
          {
            name: "amount",
            label: words.amount,
            hint: words.amountHint,
            kind: "money",
            isFirst: true,
            isRequired: true,
          },
          { name: "count", label: words.count, hint: words.countHint, kind: "count", value: "1" },
        ],
        {
          name: "expires",
          label: words.expires,
          hint: text.keys.settings.expiresHint,
          kind: "code",
          isOptional: true,
        },
        { name: "note", label: text.forms.note, hint: words.noteHint, isOptional: true },
      ]}
      figures={({ amount, count }) => {
        const sum = times(amount, count);
        return [
          {
            label: words.worth,
            before: <Money amount="0" />,
            after: sum && <Money amount={sum} isExact />,
          },
        ];
      }}
      shown={(vouchers) => <Codes vouchers={vouchers} onClose={ends.onClose} />}
    />
  );
}

/** Asks before a voucher is revoked. */
export function RevokeVoucher({ voucher, ...ends }: DialogEnds & { voucher: VoucherDocument }) {
  const { title, confirm, meaning, done, doneBefore } = words.revoke;
  return (
    <OperationDialog
      call="POST /api/vouchers/:id/revoke"
      at={{ id: voucher.id }}
      {...ends}
      title={title}
      confirm={confirm}
      isDanger
      intro={
        <>
          {meaning} <code>{voucher.prefix}…</code>, <Money amount={voucher.amount_rub} />
        </>
      }
      figures={() => [
        {
          label: words.state,
          before: <VoucherState state={voucher.state} />,
          after: <VoucherState state="revoked" />,
        },
      ]}
      done={({ applied }) => (applied ? done : doneBefore)}
    />
  );
}

const columns: readonly Column<CreatedVoucherDocument>[] = [
  { id: "code", head: words.code, value: ({ code }) => code },
  { id: "amount", head: words.amount, value: (voucher) => voucher.amount_rub },
  { id: "id", head: words.id, value: ({ id }) => id },
  { id: "expires", head: words.expires, value: (voucher) => voucher.expires_at },
  { id: "note", head: words.note, value: ({ note }) => note },
];

/** Shows the codes of new vouchers. They are nowhere else, and gone when this closes. */
function Codes({
  vouchers,
  onClose,
}: {
  vouchers: readonly CreatedVoucherDocument[];
  onClose: () => void;
}) {
  const codes = vouchers.map(({ code }) => code).join("\n");
  return (
    <OnceDialog title={words.created(vouchers.length)} onClose={onClose}>
      {(onCopied) => (
        <>
          <p>{words.shownOnce}</p>
          <div class="codes">
            <ScrollArea label={words.code}>
              <pre>{codes}</pre>
            </ScrollArea>
          </div>
          <div class="row toolbar">
            <CopyButton
              text={codes}
              label={words.codes(vouchers.length)}
              tone="primary"
              onCopied={onCopied}
              isFirst
            />
            <CopyButton
              text={() => tableCsv(columns, vouchers)}
              label={words.codes(vouchers.length)}
              action={words.copyCsv}
              tone="plain"
              onCopied={onCopied}
            />
          </div>
        </>
      )}
    </OnceDialog>
  );
}
