import type { AccountDetail } from "./accountDetail.ts";
import type { AccountDocument } from "./account.ts";
import type { ConfigReport } from "./configReport.ts";
import type { ConsoleState } from "./consoleState.ts";
import type {
  CreatedKeyDocument,
  KeyDocument,
  RevokedKeyDocument,
  RotatedKeyDocument,
} from "./key.ts";
import type { ChangedBalanceDocument, RefundDocument } from "./ledger.ts";
import type { AccountList, KeyList, LedgerPage, RequestList, VoucherList } from "./lists.ts";
import type { ModelPrices } from "./modelPrices.ts";
import type { Overview } from "./overview.ts";
import type { ProviderReport } from "./providerReport.ts";
import type { RequestDetailDocument } from "./request.ts";
import type { CreatedVoucherDocument, RevokedVoucherDocument } from "./voucher.ts";

/** What a route takes, as texts, and its answer. */
interface Call<Input, Answer> {
  readonly input: Input;
  readonly answer: Answer;
}

type Text = string | undefined;

interface Entry {
  readonly account: string;
  readonly amount: string;
  readonly ref?: Text;
  readonly note?: Text;
}

interface Settings {
  readonly label?: Text;
  readonly expires?: Text;
  readonly rpm?: Text;
  readonly tpm?: Text;
  readonly concurrent?: Text;
  readonly models?: Text;
  readonly budget?: Text;
}

interface Account {
  readonly account: string;
}

interface Id {
  readonly id: string;
}

interface Span {
  readonly span?: Text;
}

interface Page {
  readonly before?: Text;
  readonly limit?: Text | number;
}

interface Search extends Page {
  readonly search?: Text;
}

/**
 * What the page of the console may call. The operation with this route declares how the input is read. The page uses these
 * types alone.
 */
export interface OperatorApi {
  "POST /api/accounts": Call<{ name: string; overdraft?: Text }, AccountDocument>;
  "POST /api/accounts/:account/settings": Call<
    Account & { overdraft?: Text; low?: Text; plan?: Text },
    AccountDocument
  >;
  "POST /api/accounts/:account/disable": Call<Account, AccountDocument>;
  "POST /api/accounts/:account/enable": Call<Account, AccountDocument>;
  "POST /api/accounts/:account/credit": Call<Entry, ChangedBalanceDocument>;
  "POST /api/accounts/:account/debit": Call<Entry, ChangedBalanceDocument>;
  "POST /api/requests/:id/refund": Call<
    Id & { amount?: Text; ref?: Text; note?: Text },
    RefundDocument
  >;
  "POST /api/keys": Call<Account & Settings, CreatedKeyDocument>;
  "POST /api/keys/:id/settings": Call<Id & Settings, KeyDocument>;
  "POST /api/keys/:id/rotate": Call<Id & { grace?: Text }, RotatedKeyDocument>;
  "POST /api/keys/:id/revoke": Call<Id, RevokedKeyDocument>;
  "POST /api/vouchers": Call<
    { amount: string; count?: Text; expires?: Text; note?: Text },
    CreatedVoucherDocument[]
  >;
  "POST /api/vouchers/:id/revoke": Call<Id, RevokedVoucherDocument>;
  "GET /api/overview": Call<Span, Overview>;
  "GET /api/accounts": Call<Search, AccountList>;
  "GET /api/accounts/:account": Call<Account & Span, AccountDetail>;
  "GET /api/accounts/:account/ledger": Call<Account & Page, LedgerPage>;
  "GET /api/keys": Call<{ account?: Text } & Search, KeyList>;
  "GET /api/vouchers": Call<Search, VoucherList>;
  "GET /api/requests": Call<
    {
      account?: Text;
      key?: Text;
      model?: Text;
      provider?: Text;
      status?: Text;
      since?: Text;
      until?: Text;
      cost_min?: Text;
      cost_max?: Text;
      only?: Text;
    } & Page,
    RequestList
  >;
  "GET /api/requests/:id": Call<Id, RequestDetailDocument>;
  "GET /api/providers": Call<Span, ProviderReport>;
  "GET /api/models": Call<object, ModelPrices>;
  "GET /api/check": Call<object, ConfigReport>;
  "GET /api/state": Call<object, ConsoleState>;
}
