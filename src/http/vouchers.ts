import type { App } from "../app.ts";
import {
  checkVoucherRedemption,
  redemptionForm,
  VoucherRedemption,
  VoucherRedemptionBody,
} from "../contract/account/voucherRedemption.ts";
import { errorAnswers } from "../contract/errorSchemas.ts";
import { parseJsonObject } from "../contract/jsonBody.ts";
import { redeemVoucher } from "../gateway/redeemVoucher.ts";
import { WRONG_CODES_OF_ACCOUNT_MAX, WRONG_CODES_OF_KEY_MAX } from "../limits/wrongCodes.ts";
import { available } from "../store/store.ts";
import { declaredRoute } from "./declaredRoute.ts";
import type { InFlightRequest } from "./authentication.ts";
import { BodyIntake, readBody } from "./requestBody.ts";

/** A code has 35 characters. */
const BODY_BYTES_MAX = 4096;

/** POST /v1/vouchers/redeem. */
export const createRedemption = declaredRoute({
  endpoint: "vouchers",
  // With `parse: "none"` Elysia neither reads nor checks the body.
  parse: "none" as const,
  detail: {
    operationId: "redeemVoucher",
    tags: ["account"],
    summary: "Credits the account with a voucher",
    description: [
      "A voucher is redeemed once. A repeat by the same account changes nothing and gets the same answer with `applied: false`.",
      "A code that is unknown, revoked, expired or redeemed by another account is a 404: `voucher not found`.",
      "A code with a typing error is a 400.",
      `After ${WRONG_CODES_OF_KEY_MAX} codes with a 404 within an hour the key gets a 429, and after ${WRONG_CODES_OF_ACCOUNT_MAX} of all its keys the account does.`,
    ].join(" "),
    requestBody: {
      description: "Other fields than `code` get a 400.",
      content: {},
    },
    responses: { 200: { description: "The money of the account, with the credit." } },
  },
  body: VoucherRedemptionBody,
  response: { 200: VoucherRedemption, ...errorAnswers(400, 401, 404, 429, 502) },
});

/** Reads a code and redeems it for the caller's account. Rejects with ApiError. */
export async function redemptionOf(
  app: App,
  inFlight: InFlightRequest,
): Promise<VoucherRedemption> {
  const { caller, request } = inFlight;
  const intake = new BodyIntake(app, inFlight);
  try {
    const body = await readBody(request, BODY_BYTES_MAX, intake);
    const { code } = checkVoucherRedemption(parseJsonObject(body).value);
    inFlight.startWaiting();
    const { voucher, applied } = await redeemVoucher(
      app.gateway,
      app.wrongCodeLimits,
      inFlight,
      code,
    );
    const account = await app.gateway.store.accounts.findOrThrow(caller.account);
    const { publicId, amount } = voucher;
    return redemptionForm({ voucher: publicId, amount, applied }, account, available(account));
  } finally {
    intake.release();
  }
}
