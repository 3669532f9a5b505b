import { useSignal } from "@preact/signals";
import type { CreatedKeyDocument } from "../../../contract/operator/key.ts";
import { FormDialog } from "../../components/dialog.tsx";
import { TextField } from "../../components/fields.tsx";
import { visibleText } from "../../components/text.tsx";
import { useForm } from "../forms.tsx";
import { OnceDialog, Secret } from "../onceDialog.tsx";
import { text } from "../text.ts";
import { SettingFields, settingTexts, type SettingName } from "./settingFields.tsx";

const words = text.keys;

export interface CreateKeyProps {
  /** The account of the key. Without it the operator types its name. */
  readonly account?: string;
  readonly onClose: () => void;
}

/** Creates a key, and shows it once. */
export function CreateKey({ account = "", onClose }: CreateKeyProps) {
  const created = useSignal<CreatedKeyDocument | undefined>(undefined);
  const form = useForm<SettingName | "account">({
    account,
    label: "",
    expires: "",
    budget: "",
    rpm: "",
    tpm: "",
    concurrent: "",
    models: "",
  });
  const create = async (): Promise<void> => {
    const key = await form.send<CreatedKeyDocument>("/api/keys", {
      account: form.typed("account"),
      ...settingTexts(form),
    });
    created.value = key;
  };
  if (created.value !== undefined) return <CreatedKey created={created.value} onClose={onClose} />;
  return (
    <FormDialog
      title={words.create}
      confirm={words.confirmCreate}
      canConfirm={form.typed("account") !== ""}
      onConfirm={create}
      onClose={onClose}
    >
      <TextField
        label={words.account}
        hint={words.accountHint}
        isFirst={account === ""}
        isRequired
        isCode
        {...form.field("account")}
      />
      <SettingFields form={form} isFirst={account !== ""} isOptional />
    </FormDialog>
  );
}

export interface CreatedKeyProps {
  readonly created: CreatedKeyDocument;
  readonly onClose: () => void;
}

/** Shows the secret of a new key. It is nowhere else, and gone when this closes. */
export function CreatedKey({ created, onClose }: CreatedKeyProps) {
  return (
    <OnceDialog title={words.created} onClose={onClose}>
      {(onCopied) => (
        <>
          <p>{words.shownOnce}</p>
          <Secret label={words.key} secret={created.key} onCopied={onCopied} />
          <p>
            {created.created_account
              ? words.forNewAccount(visibleText(created.account))
              : words.forAccount(visibleText(created.account))}{" "}
            {words.idIs} <code>{created.id}</code>
          </p>
        </>
      )}
    </OnceDialog>
  );
}
