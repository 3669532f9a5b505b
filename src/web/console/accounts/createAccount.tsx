import type { AccountDocument } from "../../../contract/operator/account.ts";
import { FormDialog } from "../../components/dialog.tsx";
import { TextField } from "../../components/fields.tsx";
import { go } from "../../router.ts";
import { toast } from "../../toasts.ts";
import { amountText } from "../amounts.ts";
import { useForm } from "../forms.tsx";
import { text } from "../text.ts";

/** Creates an account and shows it. */
export function CreateAccount({ onClose }: { onClose: () => void }) {
  const form = useForm({ name: "", overdraft: "" });
  const create = async (): Promise<void> => {
    const created = await form.send<AccountDocument>("/api/accounts", {
      name: form.typed("name"),
      overdraft: amountText(form.typed("overdraft")),
    });
    if (created === undefined) return;
    toast(text.accounts.created(created.name));
    onClose();
    go(["accounts", created.name]);
  };
  return (
    <FormDialog
      title={text.accounts.create}
      confirm={text.accounts.confirmCreate}
      canConfirm={form.typed("name") !== ""}
      onConfirm={create}
      onClose={onClose}
    >
      <TextField
        label={text.accounts.name}
        hint={text.accounts.nameHint}
        isFirst
        isRequired
        isCode
        {...form.field("name")}
      />
      <TextField
        label={text.accounts.overdraft}
        hint={text.accounts.overdraftHint}
        unit="₽"
        inputMode="decimal"
        isOptional
        {...form.field("overdraft")}
      />
    </FormDialog>
  );
}
