import type { DatabasePlace } from "../auditor/databaseRows.ts";
import { costOf } from "../gateway/gatewayConfig.ts";
import { rowsAt } from "../store/gatewayDatabase.ts";
import type { Generated } from "./meteredProvider.ts";

/** A request as it was charged. */
export interface ChargedRequest {
  readonly id: string;
  readonly account: string;
  readonly status: string;
  /** In nano-roubles. */
  readonly charge: bigint;
}

/** All requests of a gateway. */
export async function chargedRequests(place: DatabasePlace): Promise<readonly ChargedRequest[]> {
  return await rowsAt<ChargedRequest>(
    place,
    `SELECT requests.public_id AS id, accounts.name AS account, requests.status AS status, requests.charge AS charge
     FROM requests JOIN accounts ON accounts.id = requests.account_id`,
  );
}

/** What a provider's own count costs at the prices of the model, in nano-roubles. */
export function generatedCost({ prompt, hidden, visible }: Generated): bigint {
  return costOf({ prompt, completion: hidden + visible });
}

/** Roubles with this many decimals. */
export function inRoubles(nano: bigint | number, decimals = 2): string {
  return (Number(nano) / 1e9).toFixed(decimals);
}
