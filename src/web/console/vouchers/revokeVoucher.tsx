import type {
  RevokedVoucherDocument,
  VoucherDocument,
} from "../../../contract/operator/voucher.ts";
import { ConfirmChange } from "../../components/dialog.tsx";
import { Money } from "../../components/values.tsx";
import { toast } from "../../toasts.ts";
import { useForm } from "../forms.tsx";
import { text } from "../text.ts";
import { VoucherState } from "./voucherState.tsx";

const words = text.vouchers;

export interface RevokeVoucherProps {
  readonly voucher: VoucherDocument;
  readonly onClose: () => void;
  /** After the change. */
  readonly onDone: () => void;
}

/** Asks before a voucher is revoked. */
export function RevokeVoucher({ voucher, onClose, onDone }: RevokeVoucherProps) {
  const form = useForm({});
  const revoke = async (): Promise<void> => {
    const path = `/api/vouchers/${encodeURIComponent(voucher.id)}/revoke`;
    const revoked = await form.send<RevokedVoucherDocument>(path, {});
    if (revoked === undefined) return;
    toast(revoked.applied ? words.revoke.done : words.revoke.doneBefore);
    onDone();
    onClose();
  };
  return (
    <ConfirmChange
      title={words.revoke.title}
      confirm={words.revoke.confirm}
      isDanger
      onConfirm={revoke}
      onClose={onClose}
      figures={[
        {
          label: words.state,
          before: <VoucherState state={voucher.state} />,
          after: <VoucherState state="revoked" />,
        },
      ]}
    >
      <p>
        {words.revoke.meaning} <code>{voucher.prefix}…</code>, <Money amount={voucher.amount_rub} />
      </p>
    </ConfirmChange>
  );
}
