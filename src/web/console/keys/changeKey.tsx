import { useSignal } from "@preact/signals";
import type {
  KeyDocument,
  RevokedKeyDocument,
  RotatedKeyDocument,
} from "../../../contract/operator/key.ts";
import { ConfirmChange, FormDialog } from "../../components/dialog.tsx";
import { TextField } from "../../components/fields.tsx";
import { Name } from "../../components/text.tsx";
import { None } from "../../components/values.tsx";
import { toast } from "../../toasts.ts";
import { useForm } from "../forms.tsx";
import { text } from "../text.ts";
import { CreatedKey } from "./createKey.tsx";
import { KeyState, type KeyRow } from "./keyTable.tsx";
import { SettingFields, settingTexts, useTextsOf, type SettingName } from "./settingFields.tsx";

const words = text.keys;

/** A change of a key that a dialog asks for. */
export type KeyChange = "settings" | "rotate" | "revoke";

export interface ChangeKeyProps {
  readonly row: KeyRow;
  readonly onClose: () => void;
  /** After the change. */
  readonly onDone: () => void;
}

/** The dialog of a change. */
export function ChangeKey({ change, ...props }: ChangeKeyProps & { change: KeyChange }) {
  switch (change) {
    case "settings":
      return <ChangeSettings {...props} />;
    case "rotate":
      return <RotateKey {...props} />;
    case "revoke":
      return <RevokeKey {...props} />;
  }
}

function ChangeSettings({ row, onClose, onDone }: ChangeKeyProps) {
  const before = useTextsOf(row);
  const form = useForm<SettingName>(before);
  const after = settingTexts(form);
  const changed = (Object.keys(after) as SettingName[]).filter(
    (name) => after[name] !== before[name],
  );
  const change = async (): Promise<void> => {
    const body = Object.fromEntries(changed.map((name) => [name, after[name] || "none"]));
    const key = await form.send<KeyDocument>(pathOf(row, "settings"), body);
    if (key === undefined) return;
    toast(words.settings.done);
    onDone();
    onClose();
  };
  return (
    <ConfirmChange
      title={words.settings.title}
      confirm={words.settings.confirm}
      canConfirm={changed.length > 0}
      onConfirm={change}
      onClose={onClose}
      figures={changed.map((name) => ({
        label: words.settings[name],
        before: <SettingValue value={before[name]} />,
        after: <SettingValue value={after[name]} />,
      }))}
    >
      <p>{words.settings.intro}</p>
      <SettingFields form={form} isFirst />
    </ConfirmChange>
  );
}

function SettingValue({ value }: { value: string }) {
  return value === "" ? <None /> : <Name text={value} />;
}

function RotateKey({ row, onClose, onDone }: ChangeKeyProps) {
  const form = useForm({ grace: "" });
  const rotated = useSignal<RotatedKeyDocument | undefined>(undefined);
  const rotate = async (): Promise<void> => {
    const key = await form.send<RotatedKeyDocument>(pathOf(row, "rotate"), {
      grace: form.typed("grace"),
    });
    if (key === undefined) return;
    rotated.value = key;
    onDone();
  };
  if (rotated.value !== undefined) return <CreatedKey created={rotated.value} onClose={onClose} />;
  return (
    <FormDialog
      title={words.rotate.title}
      confirm={words.rotate.confirm}
      onConfirm={rotate}
      onClose={onClose}
    >
      <p>{words.rotate.meaning}</p>
      <TextField
        label={words.rotate.grace}
        hint={words.rotate.graceHint}
        isCode
        isFirst
        isOptional
        {...form.field("grace")}
      />
    </FormDialog>
  );
}

function RevokeKey({ row, onClose, onDone }: ChangeKeyProps) {
  const form = useForm({});
  const revoke = async (): Promise<void> => {
    const key = await form.send<RevokedKeyDocument>(pathOf(row, "revoke"), {});
    if (key === undefined) return;
    toast(key.applied ? words.revoke.done : words.revoke.doneBefore);
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
          before: <KeyState state={row.state} isReplaced={row.is_replaced} />,
          after: <KeyState state="revoked" isReplaced={row.is_replaced} />,
        },
      ]}
    >
      <p>{words.revoke.meaning}</p>
    </ConfirmChange>
  );
}

function pathOf(key: KeyDocument, change: KeyChange): string {
  return `/api/keys/${encodeURIComponent(key.id)}/${change}`;
}
