import { useSignal } from "@preact/signals";
import type { CreatedVoucherDocument } from "../../../contract/operator/voucher.ts";
import { CopyButton } from "../../components/buttons.tsx";
import { ConfirmChange } from "../../components/dialog.tsx";
import { TextField } from "../../components/fields.tsx";
import { ScrollArea } from "../../components/scrollArea.tsx";
import { tableCsv, type Column } from "../../components/table.tsx";
import { Money } from "../../components/values.tsx";
import { amountText, times } from "../amounts.ts";
import { useForm } from "../forms.tsx";
import { OnceDialog } from "../onceDialog.tsx";
import { text } from "../text.ts";

const words = text.vouchers;

export interface CreateVouchersProps {
  readonly onClose: () => void;
  /** After the change. */
  readonly onDone: () => void;
}

/** Creates vouchers, and shows their codes once. */
export function CreateVouchers({ onClose, onDone }: CreateVouchersProps) {
  const created = useSignal<readonly CreatedVoucherDocument[] | undefined>(undefined);
  const form = useForm({ amount: "", count: "1", expires: "", note: "" });
  const amount = amountText(form.typed("amount"));
  const sum = times(amount, form.typed("count"));
  const create = async (): Promise<void> => {
    const vouchers = await form.send<readonly CreatedVoucherDocument[]>("/api/vouchers", {
      amount,
      count: form.typed("count"),
      expires: form.typed("expires"),
      note: form.typed("note"),
    });
    if (vouchers === undefined) return;
    created.value = vouchers;
    onDone();
  };
  if (created.value !== undefined) return <Codes vouchers={created.value} onClose={onClose} />;
  return (
    <ConfirmChange
      title={words.create}
      confirm={words.confirmCreate}
      canConfirm={amount !== ""}
      onConfirm={create}
      onClose={onClose}
      figures={[
        {
          label: words.worth,
          before: <Money amount="0" />,
          after: sum && <Money amount={sum} isExact />,
        },
      ]}
    >
      <div class="fields">
        <TextField
          label={words.amount}
          hint={words.amountHint}
          unit="₽"
          inputMode="decimal"
          isFirst
          isRequired
          {...form.field("amount")}
        />
        <TextField
          label={words.count}
          hint={words.countHint}
          inputMode="numeric"
          {...form.field("count")}
        />
      </div>
      <TextField
        label={words.expires}
        hint={text.keys.settings.expiresHint}
        isCode
        isOptional
        {...form.field("expires")}
      />
      <TextField label={text.forms.note} hint={words.noteHint} isOptional {...form.field("note")} />
    </ConfirmChange>
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
          <div class="toolbar">
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
