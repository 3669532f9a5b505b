import { useMemo } from "preact/hooks";
import type { CreatedKeyDocument, KeyDocument } from "../../../contract/operator/key.ts";
import { Name, visibleText } from "../../components/text.tsx";
import { None } from "../../components/values.tsx";
import type { Input } from "../call.ts";
import {
  OnceDialog,
  OperationDialog,
  Secret,
  type DialogEnds,
  type DialogField,
} from "../operationDialog.tsx";
import { text } from "../text.ts";
import { KeyState, type KeyRow } from "./keyTable.tsx";

const words = text.keys;

/** The settings of a key, as the options of the command are named. */
type SettingName = Exclude<keyof Input<"POST /api/keys/:id/settings">, "id">;

/** A change of a key that a dialog asks for. */
export type KeyChange = "settings" | "rotate" | "revoke";

/** The fields of all settings of a key, with what stands in them at first. */
function settingFields(
  values: Partial<Record<SettingName, string>>,
  first: SettingName | undefined,
  isOptional: boolean,
): readonly (DialogField<SettingName> | readonly DialogField<SettingName>[])[] {
  const { settings } = words;
  const field = (
    name: SettingName,
    kind?: DialogField<SettingName>["kind"],
    hint?: string,
  ): DialogField<SettingName> => ({
    name,
    label: settings[name],
    value: values[name] ?? "",
    isOptional,
    isFirst: name === first,
    ...(kind && { kind }),
    ...(hint !== undefined && { hint }),
  });
  return [
    field("label"),
    [field("budget", "money"), field("expires", "code", settings.expiresHint)],
    field("models", "code", settings.modelsHint),
    [field("rpm", "count"), field("tpm", "count"), field("concurrent", "count")],
  ];
}

export interface CreateKeyProps extends DialogEnds {
  /** The account of the key. Without it the operator types its name. */
  readonly account?: string;
}

/** Creates a key, and shows it once. */
export function CreateKey({ account = "", ...ends }: CreateKeyProps) {
  return (
    <OperationDialog
      call="POST /api/keys"
      {...ends}
      title={words.create}
      confirm={words.confirmCreate}
      fields={[
        {
          name: "account",
          label: words.account,
          hint: words.accountHint,
          kind: "code",
          value: account,
          isFirst: account === "",
          isRequired: true,
        },
        ...settingFields({}, account === "" ? undefined : "label", true),
      ]}
      hint={words.settings.limitsHint}
      shown={(created) => <CreatedKey created={created} onClose={ends.onClose} />}
    />
  );
}

/** Shows the secret of a new key. It is nowhere else, and gone when this closes. */
function CreatedKey({ created, onClose }: { created: CreatedKeyDocument; onClose: () => void }) {
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

export interface ChangeKeyProps extends DialogEnds {
  readonly row: KeyRow;
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

/** Sends the settings that differ from those at the opening of the dialog, even if newer ones were loaded meanwhile. */
function ChangeSettings({ row, ...ends }: ChangeKeyProps) {
  const before = useMemo(() => textsOf(row), []);
  const changedIn = (after: Readonly<Record<SettingName, string>>) =>
    (Object.keys(before) as SettingName[]).filter((name) => after[name] !== before[name]);
  return (
    <OperationDialog
      call="POST /api/keys/:id/settings"
      at={{ id: row.id }}
      {...ends}
      title={words.settings.title}
      confirm={words.settings.confirm}
      intro={words.settings.intro}
      fields={settingFields(before, "label", false)}
      hint={words.settings.limitsHint}
      canConfirm={(after) => changedIn(after).length > 0}
      input={(after) =>
        Object.fromEntries(changedIn(after).map((name) => [name, after[name] || "none"]))
      }
      figures={(after) =>
        changedIn(after).map((name) => ({
          label: words.settings[name],
          before: <SettingValue value={before[name]} />,
          after: <SettingValue value={after[name]} />,
        }))
      }
      done={() => words.settings.done}
    />
  );
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

function SettingValue({ value }: { value: string }) {
  return value === "" ? <None /> : <Name text={value} />;
}

function RotateKey({ row, ...ends }: ChangeKeyProps) {
  const { title, confirm, meaning, grace, graceHint } = words.rotate;
  return (
    <OperationDialog
      call="POST /api/keys/:id/rotate"
      at={{ id: row.id }}
      {...ends}
      title={title}
      confirm={confirm}
      intro={meaning}
      fields={[
        {
          name: "grace",
          label: grace,
          hint: graceHint,
          kind: "code",
          isFirst: true,
          isOptional: true,
        },
      ]}
      shown={(created) => <CreatedKey created={created} onClose={ends.onClose} />}
    />
  );
}

function RevokeKey({ row, ...ends }: ChangeKeyProps) {
  const { title, confirm, meaning, done, doneBefore } = words.revoke;
  return (
    <OperationDialog
      call="POST /api/keys/:id/revoke"
      at={{ id: row.id }}
      {...ends}
      title={title}
      confirm={confirm}
      isDanger
      intro={meaning}
      figures={() => [
        {
          label: words.state,
          before: <KeyState state={row.state} isReplaced={row.is_replaced} />,
          after: <KeyState state="revoked" isReplaced={row.is_replaced} />,
        },
      ]}
      done={({ applied }) => (applied ? done : doneBefore)}
    />
  );
}
