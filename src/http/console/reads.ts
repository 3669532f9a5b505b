import { Type } from "@sinclair/typebox";
import { Elysia } from "elysia";
import type { Operator } from "../../administration/operator.ts";
import { readOptionalField, wholeNumber } from "../../administration/values.ts";
import { ConfigError, loadConfig } from "../../config/load.ts";
import { AccountDetail } from "../../contract/operator/accountDetail.ts";
import { ConfigReport, configReport } from "../../contract/operator/configReport.ts";
import {
  AccountList,
  KeyList,
  LedgerPage,
  RequestList,
  VoucherList,
} from "../../contract/operator/lists.ts";
import { ModelPrices } from "../../contract/operator/modelPrices.ts";
import { Overview } from "../../contract/operator/overview.ts";
import { ProviderReport } from "../../contract/operator/providerReport.ts";
import { RequestDetailDocument } from "../../contract/operator/request.ts";
import { reportSpans } from "../../contract/operator/span.ts";
import { oneOf } from "../../contract/requestFields.ts";
import { declaredRoute } from "../declaredRoute.ts";
import { accountDetailOf, accountsOf, keysOf, ledgerOf, vouchersOf } from "./reports/lists.ts";
import { modelPricesOf } from "./reports/modelPrices.ts";
import { overviewOf } from "./reports/overview.ts";
import { providersOf } from "./reports/providers.ts";
import { requestOf, RequestsQuery, requestsOf } from "./reports/requests.ts";

const SPAN_DEFAULT = "7d";
const ROWS_DEFAULT = 50;
const ROWS_MAX = 1000;

const text = Type.Optional(Type.String({ maxLength: 512 }));
const SpanQuery = Type.Object({ span: Type.Optional(oneOf(reportSpans)) });
const SearchQuery = Type.Object({ search: text, limit: text });
const KeysQuery = Type.Object({ account: text, search: text, limit: text });
const PageQuery = Type.Object({ before: text, limit: text });

/**
 * The reads of the console. Each answers a document of contract/operator/. Thrown errors are left to the server. Elysia
 * decodes the parameters of the path.
 */
export function reads(operator: () => Operator) {
  return new Elysia({ name: "reads" })
    .get(
      "/api/overview",
      ({ query }) => overviewOf(operator(), query.span ?? SPAN_DEFAULT),
      declaredRoute({ query: SpanQuery, response: { 200: Overview } }),
    )
    .get(
      "/api/accounts",
      ({ query }) => accountsOf(operator(), searchOf(query)),
      declaredRoute({ query: SearchQuery, response: { 200: AccountList } }),
    )
    .get(
      "/api/accounts/:name",
      ({ params, query }) => accountDetailOf(operator(), params.name, query.span ?? SPAN_DEFAULT),
      declaredRoute({ query: SpanQuery, response: { 200: AccountDetail } }),
    )
    .get(
      "/api/accounts/:name/ledger",
      ({ params, query }) => ledgerOf(operator(), params.name, pageOf(query)),
      declaredRoute({ query: PageQuery, response: { 200: LedgerPage } }),
    )
    .get(
      "/api/keys",
      ({ query }) => keysOf(operator(), { account: query.account, ...searchOf(query) }),
      declaredRoute({ query: KeysQuery, response: { 200: KeyList } }),
    )
    .get(
      "/api/vouchers",
      ({ query }) => vouchersOf(operator(), searchOf(query)),
      declaredRoute({ query: SearchQuery, response: { 200: VoucherList } }),
    )
    .get(
      "/api/requests",
      ({ query }) => requestsOf(operator(), query, pageOf(query)),
      declaredRoute({ query: RequestsQuery, response: { 200: RequestList } }),
    )
    .get(
      "/api/requests/:id",
      ({ params }) => requestOf(operator(), params.id),
      declaredRoute({ response: { 200: RequestDetailDocument } }),
    )
    .get(
      "/api/providers",
      ({ query }) => providersOf(operator(), query.span ?? SPAN_DEFAULT),
      declaredRoute({ query: SpanQuery, response: { 200: ProviderReport } }),
    )
    .get(
      "/api/models",
      () => modelPricesOf(operator().config),
      declaredRoute({ response: { 200: ModelPrices } }),
    )
    .get(
      "/api/check",
      () => checkConfig(operator().config.file),
      declaredRoute({ response: { 200: ConfigReport } }),
    );
}

/** What `tollgate check` says of the config file as it is now. */
function checkConfig(path: string): ConfigReport {
  try {
    const { config, warnings } = loadConfig({ path });
    return configReport({ file: config.file, warnings });
  } catch (error) {
    if (error instanceof ConfigError) return configReport({ problems: error.problems });
    throw error;
  }
}

function searchOf({ search, limit }: { readonly search?: string; readonly limit?: string }) {
  return { search: search === "" ? undefined : search, limit: limitOf(limit) };
}

/** The cursor is the number of the last row. */
function pageOf({ before, limit }: { readonly before?: string; readonly limit?: string }) {
  const cursor = wholeNumber(1, Number.MAX_SAFE_INTEGER);
  return { before: readOptionalField("before", before, cursor), limit: limitOf(limit) };
}

function limitOf(limit: string | undefined): number {
  return readOptionalField("limit", limit, wholeNumber(1, ROWS_MAX)) ?? ROWS_DEFAULT;
}
