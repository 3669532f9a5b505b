import { lazyParts } from "../lib/lazy.ts";
import { admin, type ReleaseReserve } from "./admin/admin.ts";
import type { Connection } from "./connection.ts";
import { reports } from "./reports/reports.ts";
import type { Store } from "./store.ts";
import { accountTable } from "./tables/accounts.ts";
import { keyTable } from "./tables/keys.ts";
import { ledgerTable } from "./tables/ledger.ts";
import { noticeCauses } from "./tables/noticeCauses.ts";
import { noticeTable } from "./tables/notices.ts";
import { ownerTable } from "./tables/objectOwners.ts";
import { requestTable } from "./tables/requests.ts";
import { voucherTable } from "./tables/vouchers.ts";
import { usage } from "./usage/usage.ts";

type Parts = Pick<
  Store,
  | "accounts"
  | "keys"
  | "ledger"
  | "requests"
  | "owners"
  | "vouchers"
  | "usage"
  | "reports"
  | "notices"
  | "noticeCauses"
  | "admin"
>;

/**
 * The parts of a store that are written once for both engines. Each is made at its first use: a command needs only a
 * few. `records`: the connection for notices, because `connection` may be that of a standby, which takes no writes.
 */
function partsOf(
  connection: Connection,
  releaseReserve: ReleaseReserve,
  records = connection,
): Parts {
  return lazyParts<Parts>({
    accounts: () => accountTable(connection),
    keys: () => keyTable(connection),
    ledger: () => ledgerTable(connection),
    requests: () => requestTable(connection),
    owners: () => ownerTable(connection),
    vouchers: () => voucherTable(connection),
    usage: () => usage(connection),
    reports: () => reports(connection),
    notices: () => noticeTable(records),
    noticeCauses: () => noticeCauses(connection),
    admin: () => admin(connection, releaseReserve),
  });
}

/** A store with these parts. */
export class StoreParts implements Parts {
  declare readonly accounts: Parts["accounts"];
  declare readonly keys: Parts["keys"];
  declare readonly ledger: Parts["ledger"];
  declare readonly requests: Parts["requests"];
  declare readonly owners: Parts["owners"];
  declare readonly vouchers: Parts["vouchers"];
  declare readonly usage: Parts["usage"];
  declare readonly reports: Parts["reports"];
  declare readonly notices: Parts["notices"];
  declare readonly noticeCauses: Parts["noticeCauses"];
  declare readonly admin: Parts["admin"];

  constructor(...of: Parameters<typeof partsOf>) {
    Object.defineProperties(this, Object.getOwnPropertyDescriptors(partsOf(...of)));
  }
}
