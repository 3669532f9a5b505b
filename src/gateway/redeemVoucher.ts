import type { Caller } from "../auth/knownKeys.ts";
import { hashOfCode } from "../auth/voucherCode.ts";
import {
  invalidRequest,
  rateLimitExceeded,
  serviceUnavailable,
  voucherNotFound,
  type ApiError,
} from "../contract/errors.ts";
import type { WrongCodeLimits } from "../limits/wrongCodes.ts";
import { redeemability, type VoucherRow } from "../store/store.ts";
import { refuseWhileUnwritable } from "./admission/admit.ts";
import type { Gateway } from "./gateway.ts";

/** `applied` is false if the account had redeemed the voucher before. */
export interface Redeemed {
  readonly voucher: VoucherRow;
  readonly applied: boolean;
}

/**
 * Redeems a code for the caller's account. Resolves once the credit is committed. The money in memory is read again for the
 * next request, because the ledger adds to the change counter. Rejects with ApiError; then nothing has changed, except that
 * a wrong code counts.
 *
 * Between the check of the limit and the count there is no `await`, so requests at once cannot exceed the limit. The
 * writer decides again about an open voucher: another account may redeem it first.
 */
export async function redeemVoucher(
  gateway: Gateway,
  limits: WrongCodeLimits,
  { caller }: { readonly caller: Caller },
  code: string,
): Promise<Redeemed> {
  const { store, writer, clock } = gateway;
  const { accountId, publicId: actor } = caller;
  const hash = hashOfCode(code);
  if (hash === undefined) throw mistypedCode();
  refuseOverLimit(limits, caller);
  const voucher = await store.vouchers.findByHash(hash);
  // Other codes may have been counted meanwhile.
  refuseOverLimit(limits, caller);
  const at = clock.epochMs();
  const found = voucher === undefined ? "refused" : redeemability(voucher, accountId, at);
  if (voucher === undefined || found === "refused") throw wrongCode(limits, caller);
  if (found === "repeated") return { voucher, applied: false };
  refuseWhileUnwritable(gateway);
  const redemption = { voucherId: voucher.id, accountId, actor, at };
  const { redeemed } = await writer
    .writeWithin({ kind: "redeemVoucher", redemption })
    .catch((error: unknown) => {
      throw serviceUnavailable(error);
    });
  if (redeemed === "refused") throw wrongCode(limits, caller);
  if (redeemed === "too_large") throw invalidRequest("the balance cannot take this amount");
  gateway.holds.credited(accountId);
  return { voucher, applied: redeemed === "applied" };
}

function refuseOverLimit(limits: WrongCodeLimits, caller: Caller): void {
  const allowed = limits.check(caller);
  if (!allowed.ok) throw rateLimitExceeded(allowed.retryAfterMs);
}

/** The checksum finds it, so it tells nothing about other codes and does not count. */
function mistypedCode(): ApiError {
  return invalidRequest("code has a typing error: compare each character with the voucher");
}

function wrongCode(limits: WrongCodeLimits, caller: Caller): ApiError {
  limits.count(caller);
  return voucherNotFound();
}
