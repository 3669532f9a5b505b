import type { VoucherDocument } from "../../../contract/operator/voucher.ts";
import { Tag, type TagTone } from "../../components/values.tsx";
import { text } from "../text.ts";

type State = VoucherDocument["state"];

const tones: Readonly<Record<State, TagTone>> = {
  open: "info",
  redeemed: "good",
  revoked: "neutral",
  expired: "warning",
};

/** Whether a voucher can be redeemed now. */
export function VoucherState({ state }: { state: State }) {
  return <Tag tone={tones[state]}>{text.vouchers.states[state]}</Tag>;
}
