import { databaseName } from "../config/database.ts";
import { ConfigError, loadConfig } from "../config/load.ts";
import { requestStatuses } from "../contract/account/requestStatus.ts";
import { AccountDetail } from "../contract/operator/accountDetail.ts";
import { ConfigReport, configReport } from "../contract/operator/configReport.ts";
import { ConsoleState } from "../contract/operator/consoleState.ts";
import {
  AccountList,
  KeyList,
  LedgerPage,
  RequestList,
  VoucherList,
} from "../contract/operator/lists.ts";
import { ModelPrices } from "../contract/operator/modelPrices.ts";
import { Overview } from "../contract/operator/overview.ts";
import { ProviderReport } from "../contract/operator/providerReport.ts";
import { reportSpans } from "../contract/operator/span.ts";
import { isoTime, systemClock } from "../lib/clock.ts";
import { version } from "../lib/version.ts";
import {
  anyText,
  chosen,
  operation,
  query,
  queryWithDefault,
  required,
  type Operation,
} from "./operation.ts";
import type { Operator } from "./operator.ts";
import { accountDetailOf, accountsOf, keysOf, ledgerOf, vouchersOf } from "./reports/lists.ts";
import { modelPricesOf } from "./reports/modelPrices.ts";
import { overviewOf } from "./reports/overview.ts";
import { providersOf } from "./reports/providers.ts";
import { requestsOf } from "./reports/requests.ts";
import { cost, InvalidValue, keyId, pastTime, wholeNumber } from "./values.ts";

// The reports that only the console has. `--json` of the commands keeps other documents.

const ROWS_MAX = 1000;

const account = required("<account>", undefined, anyText);
const span = { ...queryWithDefault("7d", chosen(reportSpans)), choices: reportSpans };
const limit = queryWithDefault("50", wholeNumber(1, ROWS_MAX));
const search = query((text) => (text === "" ? undefined : text));
/** The cursor is the number of the last row; that of accounts is a name. */
const before = query(wholeNumber(1, Number.MAX_SAFE_INTEGER));
const only = ["estimated", "written_off"] as const;

export const consoleReports: readonly Operation[] = [
  operation({
    name: "overview",
    doc: "figures of all accounts, and what needs attention",
    route: "GET /api/overview",
    input: { span },
    output: Overview,
    effects: [],
    run: async (operator, { span }) => ({ document: await overviewOf(operator, span) }),
  }),
  operation({
    name: "accounts search",
    doc: "accounts by name, with their last 30 days",
    route: "GET /api/accounts",
    input: { search, before: query(anyText), limit },
    output: AccountList,
    effects: [],
    run: async (operator, values) => ({ document: await accountsOf(operator, values) }),
  }),
  operation({
    name: "accounts report",
    doc: "one account with its figures and keys",
    route: "GET /api/accounts/:account",
    input: { account, span },
    output: AccountDetail,
    effects: [],
    run: async (operator, { account, span }) => {
      return { document: await accountDetailOf(operator, account, span) };
    },
  }),
  operation({
    name: "balance pages",
    doc: "the ledger of an account, newest first",
    route: "GET /api/accounts/:account/ledger",
    input: { account, before, limit },
    output: LedgerPage,
    effects: [],
    run: async (operator, { account, ...page }) => {
      return { document: await ledgerOf(operator, account, page) };
    },
  }),
  operation({
    name: "keys search",
    doc: "keys, newest first, with their last 30 days",
    route: "GET /api/keys",
    input: { account: query(anyText), search, before, limit },
    output: KeyList,
    effects: [],
    run: async (operator, values) => ({ document: await keysOf(operator, values) }),
  }),
  operation({
    name: "vouchers search",
    doc: "vouchers without their codes, newest first",
    route: "GET /api/vouchers",
    input: { search, before, limit },
    output: VoucherList,
    effects: [],
    run: async (operator, values) => ({ document: await vouchersOf(operator, values) }),
  }),
  operation({
    name: "requests search",
    doc: "requests, the one recorded last first",
    route: "GET /api/requests",
    input: {
      account: query(anyText),
      key: query(keyId),
      model: query(anyText),
      provider: query(anyText),
      status: { ...query(chosen(requestStatuses)), choices: requestStatuses },
      since: query(pastTime),
      until: query(pastTime),
      cost_min: query(cost),
      cost_max: query(cost),
      only: { ...query(chosen(only)), choices: only },
      before,
      limit,
    },
    output: RequestList,
    effects: [],
    check({ since, until }) {
      if (since !== undefined && until !== undefined && since >= until)
        throw new InvalidValue("The start must be earlier than the end.", { field: "since" });
    },
    run: async (operator, values) => ({ document: await requestsOf(operator, values) }),
  }),
  operation({
    name: "providers",
    doc: "figures and circuit breakers of the providers",
    route: "GET /api/providers",
    input: { span },
    output: ProviderReport,
    effects: [],
    run: async (operator, { span }) => ({ document: await providersOf(operator, span) }),
  }),
  operation({
    name: "models",
    doc: "models with their prices and routes",
    route: "GET /api/models",
    input: {},
    output: ModelPrices,
    effects: [],
    run: async ({ config }) => ({ document: modelPricesOf(config, systemClock.epochMs()) }),
  }),
  operation({
    name: "check",
    doc: "what `tollgate check` says of the config file as it is now",
    route: "GET /api/check",
    input: {},
    output: ConfigReport,
    effects: [],
    run: async ({ config }) => ({ document: checkConfig(config.file) }),
  }),
  operation({
    name: "state",
    doc: "what the console is, and for whom",
    route: "GET /api/state",
    input: {},
    output: ConsoleState,
    effects: [],
    run: async (operator) => ({ document: await stateOf(operator) }),
  }),
];

function checkConfig(path: string): ConfigReport {
  try {
    const { config, warnings } = loadConfig({ path });
    return configReport({ file: config.file, warnings });
  } catch (error) {
    if (error instanceof ConfigError) return configReport({ problems: error.problems });
    throw error;
  }
}

async function stateOf({ config, actor, store }: Operator): Promise<ConsoleState> {
  const standby = await store.standby?.();
  return {
    version: version(),
    now: isoTime(actor.at),
    actor: actor.name,
    config_file: config.file,
    database: databaseName(config.database),
    standby: standby
      ? {
          database: standby.shownUrl,
          behind_ms: standby.lagMs ?? null,
          problem: standby.problem ?? null,
        }
      : null,
  };
}
