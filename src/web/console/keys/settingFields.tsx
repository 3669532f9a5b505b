import { useMemo } from "preact/hooks";
import type { KeyDocument } from "../../../contract/operator/key.ts";
import type { OperatorApi } from "../../../contract/operator/api.ts";
import { TextField } from "../../components/fields.tsx";
import { amountText } from "../amounts.ts";
import type { Form } from "../forms.tsx";
import { text } from "../text.ts";

/** The settings of a key, as the options of the command are named. */
export type SettingName = Exclude<keyof OperatorApi["POST /api/keys/:id/settings"]["input"], "id">;

const words = text.keys.settings;

export interface SettingFieldsProps {
  readonly form: Form<SettingName>;
  /** The focus goes to the first of them. */
  readonly isFirst: boolean;
  readonly isOptional?: boolean;
}

/** The fields of all settings of a key. */
export function SettingFields({ form, isFirst, isOptional = false }: SettingFieldsProps) {
  const shared = { isOptional };
  return (
    <>
      <TextField label={words.label} {...shared} isFirst={isFirst} {...form.field("label")} />
      <div class="fields">
        <TextField
          label={words.budget}
          unit="₽"
          inputMode="decimal"
          {...shared}
          {...form.field("budget")}
        />
        <TextField
          label={words.expires}
          hint={words.expiresHint}
          isCode
          {...shared}
          {...form.field("expires")}
        />
      </div>
      <TextField
        label={words.models}
        hint={words.modelsHint}
        isCode
        {...shared}
        {...form.field("models")}
      />
      <div class="fields fields-three">
        <TextField label={words.rpm} inputMode="numeric" {...shared} {...form.field("rpm")} />
        <TextField label={words.tpm} inputMode="numeric" {...shared} {...form.field("tpm")} />
        <TextField
          label={words.concurrent}
          inputMode="numeric"
          {...shared}
          {...form.field("concurrent")}
        />
      </div>
      <p class="hint">{words.limitsHint}</p>
    </>
  );
}

/** What is typed, as the API takes it. Empty ones are left out when it is sent. */
export function settingTexts(form: Form<SettingName>): Record<SettingName, string> {
  return {
    label: form.typed("label"),
    expires: form.typed("expires"),
    budget: amountText(form.typed("budget")),
    rpm: form.typed("rpm"),
    tpm: form.typed("tpm"),
    concurrent: form.typed("concurrent"),
    models: form.typed("models"),
  };
}

/** The settings of a key as the texts of its fields; an absent one is empty. */
function textsOf(key: KeyDocument): Record<SettingName, string> {
  const { limits } = key;
  return {
    label: key.label ?? "",
    expires: key.expires_at ?? "",
    budget: key.budget_rub ?? "",
    rpm: limits.requests_per_minute?.toString() ?? "",
    tpm: limits.tokens_per_minute?.toString() ?? "",
    concurrent: limits.concurrent_requests?.toString() ?? "",
    models: key.models?.join(", ") ?? "",
  };
}

/** The same for the life of a dialog, whatever is loaded meanwhile. */
export function useTextsOf(key: KeyDocument): Record<SettingName, string> {
  return useMemo(() => textsOf(key), []);
}
