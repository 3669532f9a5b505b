import { Tag } from "../../components/values.tsx";
import { text } from "../text.ts";

/** Whether the keys of an account are accepted. */
export function AccountState({ isDisabled }: { isDisabled: boolean }) {
  return isDisabled ? (
    <Tag tone="bad">{text.accounts.disabled}</Tag>
  ) : (
    <Tag tone="good">{text.accounts.active}</Tag>
  );
}
