import { Type, type Static, type TObject, type TSchema } from "@sinclair/typebox";
import { Elysia } from "elysia";
import { createAccount, setAccount, setDisabled } from "../../administration/accounts.ts";
import { changeBalance, refund } from "../../administration/balances.ts";
import {
  changeKey,
  createKey,
  GRACE_DEFAULT,
  revokeKey,
  rotateKey,
} from "../../administration/keys.ts";
import { readSettings, requireSettings } from "../../administration/keySettings.ts";
import type { Operator } from "../../administration/operator.ts";
import {
  accountName,
  amount,
  expiryTime,
  graceDuration,
  keyId,
  note,
  overdraft,
  readField,
  readOptionalField,
  reference,
} from "../../administration/values.ts";
import {
  createVouchers,
  revokeVoucher,
  voucherCount,
  voucherId,
} from "../../administration/vouchers.ts";
import { invalidRequest } from "../../contract/errors.ts";
import { parseJsonObject } from "../../contract/jsonBody.ts";
import { AccountDocument } from "../../contract/operator/account.ts";
import {
  NewAccount,
  NewEntry,
  NewKey,
  NewOverdraft,
  NewRefund,
  NewRotation,
  NewSettings,
  NewVouchers,
  NoValues,
} from "../../contract/operator/changes.ts";
import {
  CreatedKeyDocument,
  KeyDocument,
  RevokedKeyDocument,
  RotatedKeyDocument,
} from "../../contract/operator/key.ts";
import { ChangedBalanceDocument, RefundDocument } from "../../contract/operator/ledger.ts";
import { CreatedVoucherDocument, RevokedVoucherDocument } from "../../contract/operator/voucher.ts";
import { validationMessage } from "../../contract/validationMessage.ts";
import { declaredRoute } from "../declaredRoute.ts";
import { readBody } from "../requestBody.ts";

/** The longest text of a command line is shorter. */
const BODY_BYTES_MAX = 16 * 1024;

/**
 * The changes of the console. Each calls the function of its command and answers the document that the command prints
 * with `--json`. Thrown errors are left to the server. Elysia decodes the parameters of the path.
 */
export function changes(operator: () => Operator) {
  return new Elysia({ name: "changes" })
    .use(accountChanges(operator))
    .use(keyChanges(operator))
    .use(voucherChanges(operator));
}

async function accountChanges(operator: () => Operator) {
  const entry = async (kind: "credit" | "debit", request: Request, account: string) => {
    const body = await readValues(request, NewEntry);
    return changeBalance(operator(), {
      account,
      kind,
      amount: readField("amount", body.amount, amount),
      ...refAndNote(body),
    });
  };
  const disable = async (request: Request, name: string, disabled: boolean) => {
    await readValues(request, NoValues);
    return (await setDisabled(operator(), name, disabled)).document;
  };
  return new Elysia()
    .post(
      "/api/accounts",
      async ({ request }) => {
        const body = await readValues(request, NewAccount);
        const name = readField("name", body.name, accountName);
        const limit = readOptionalField("overdraft", body.overdraft, overdraft) ?? 0n;
        return (await createAccount(operator(), name, limit)).document;
      },
      change(NewAccount, AccountDocument),
    )
    .post(
      "/api/accounts/:name/credit",
      ({ request, params }) => entry("credit", request, params.name),
      change(NewEntry, ChangedBalanceDocument),
    )
    .post(
      "/api/accounts/:name/debit",
      ({ request, params }) => entry("debit", request, params.name),
      change(NewEntry, ChangedBalanceDocument),
    )
    .post(
      "/api/accounts/:name/overdraft",
      async ({ request, params }) => {
        const body = await readValues(request, NewOverdraft);
        const changes = { overdraft: readField("overdraft", body.overdraft, overdraft) };
        return (await setAccount(operator(), params.name, changes)).document;
      },
      change(NewOverdraft, AccountDocument),
    )
    .post(
      "/api/accounts/:name/disable",
      ({ request, params }) => disable(request, params.name, true),
      change(NoValues, AccountDocument),
    )
    .post(
      "/api/accounts/:name/enable",
      ({ request, params }) => disable(request, params.name, false),
      change(NoValues, AccountDocument),
    )
    .post(
      "/api/requests/:id/refund",
      async ({ request, params }) => {
        const body = await readValues(request, NewRefund);
        return refund(operator(), {
          request: params.id,
          amount: readOptionalField("amount", body.amount, amount),
          ...refAndNote(body),
        });
      },
      change(NewRefund, RefundDocument),
    );
}

async function keyChanges(operator: () => Operator) {
  return new Elysia()
    .post(
      "/api/keys",
      async ({ request }) => {
        const { account, ...texts } = await readValues(request, NewKey);
        const name = readField("account", account, accountName);
        const context = operator();
        const settings = readSettings(texts, "create", context.actor.at);
        return (await createKey(context, name, settings)).document;
      },
      change(NewKey, CreatedKeyDocument),
    )
    .post(
      "/api/keys/:id/settings",
      async ({ request, params }) => {
        const id = keyId(params.id);
        const texts = await readValues(request, NewSettings);
        const context = operator();
        const settings = readSettings(texts, "set", context.actor.at);
        requireSettings(settings);
        return (await changeKey(context, id, settings)).document;
      },
      change(NewSettings, KeyDocument),
    )
    .post(
      "/api/keys/:id/rotate",
      async ({ request, params }) => {
        const id = keyId(params.id);
        const { grace = GRACE_DEFAULT } = await readValues(request, NewRotation);
        return (await rotateKey(operator(), id, readField("grace", grace, graceDuration))).document;
      },
      change(NewRotation, RotatedKeyDocument),
    )
    .post(
      "/api/keys/:id/revoke",
      async ({ request, params }) => {
        const id = keyId(params.id);
        await readValues(request, NoValues);
        return (await revokeKey(operator(), id)).document;
      },
      change(NoValues, RevokedKeyDocument),
    );
}

async function voucherChanges(operator: () => Operator) {
  return new Elysia()
    .post(
      "/api/vouchers",
      async ({ request }) => {
        const body = await readValues(request, NewVouchers);
        const context = operator();
        return createVouchers(context, {
          amount: readField("amount", body.amount, amount),
          count: readOptionalField("count", body.count, voucherCount),
          expiresAt: readOptionalField("expires", body.expires, (text) =>
            expiryTime(text, context.actor.at),
          ),
          note: readOptionalField("note", body.note, note),
        });
      },
      change(NewVouchers, Type.Array(CreatedVoucherDocument)),
    )
    .post(
      "/api/vouchers/:id/revoke",
      async ({ request, params }) => {
        const id = voucherId(params.id);
        await readValues(request, NoValues);
        return revokeVoucher(operator(), id);
      },
      change(NoValues, RevokedVoucherDocument),
    );
}

/** The declaration of a change. Elysia does not read the body: {@link readValues} does. */
function change<Body extends TObject, Answer extends TSchema>(body: Body, answer: Answer) {
  return declaredRoute({ parse: "none" as const, body, response: { 200: answer } });
}

/** The console has one user, so nothing is counted. */
const unlimited = { take: () => true };

/** Reads a body of texts. No body counts as an empty object. Throws ApiError 400. */
async function readValues<Schema extends TObject>(
  request: Request,
  schema: Schema,
): Promise<Static<Schema>> {
  const { text } = await readBody(request, BODY_BYTES_MAX, unlimited);
  const value = text === "" ? {} : parseJsonObject({ text }).value;
  const problem = validationMessage(schema, value);
  if (problem !== undefined) throw invalidRequest(problem);
  return value;
}

function refAndNote(body: { readonly ref?: string; readonly note?: string }) {
  return {
    ref: readOptionalField("ref", body.ref, reference),
    note: readOptionalField("note", body.note, note),
  };
}
