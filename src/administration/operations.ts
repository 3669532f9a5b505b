import { accounts } from "./accounts.ts";
import { balance } from "./balance.ts";
import { consoleReports } from "./console.ts";
import { keys } from "./keys.ts";
import type { Operation } from "./operation.ts";
import { requests } from "./requests.ts";
import { usage } from "./usage.ts";
import { vouchers } from "./vouchers.ts";

/** All operations. Commands do not import this list, because each loads only its own group. */
export const operations: readonly Operation[] = [
  ...[accounts, keys, balance, vouchers, usage, requests].flatMap((group) => group.operations),
  ...consoleReports,
];
