import { useSignal } from "@preact/signals";
import type { VoucherRedemption } from "../../contract/account/voucherRedemption.ts";
import { failureFrom, type ApiFailure } from "../api.ts";
import { Button } from "../components/buttons.tsx";
import { TextField } from "../components/fields.tsx";
import { Name } from "../components/text.tsx";
import { FailureText, Notice } from "../components/states.tsx";
import { formats } from "../language.ts";
import { inWords } from "./failures.ts";
import type { Holding } from "./holding.ts";
import { text } from "./text.ts";

/** A field for the code of a voucher. It says what the voucher added, and the new balance. */
export function VoucherForm({ holding }: { holding: Holding }) {
  const code = useSignal("");
  const isBusy = useSignal(false);
  const failure = useSignal<ApiFailure | undefined>(undefined);
  const redeemed = useSignal<VoucherRedemption | undefined>(undefined);
  const words = text.voucher;

  const redeem = async (): Promise<void> => {
    const given = code.value.trim();
    if (isBusy.value || given === "") return;
    isBusy.value = true;
    failure.value = undefined;
    redeemed.value = undefined;
    try {
      redeemed.value = await holding.api.post<VoucherRedemption>("/v1/vouchers/redeem", {
        code: given,
      });
      code.value = "";
      holding.refresh();
    } catch (error) {
      failure.value = inWords(failureFrom(error));
    } finally {
      isBusy.value = false;
    }
  };
  const done = redeemed.value;
  return (
    <form
      class="stack voucher"
      onSubmit={(event) => {
        event.preventDefault();
        void redeem();
      }}
    >
      <TextField
        label={words.code}
        value={code}
        placeholder={words.placeholder}
        isCode
        // A link of somebody else may have opened the page with another key.
        hint={
          <>
            {words.addedTo} <Name text={holding.account.value.account} />
          </>
        }
      />
      <Button type="submit" isBusy={isBusy.value}>
        {words.redeem}
      </Button>
      <div class="voucher-result" role="status">
        {done && (
          <Notice
            tone={done.applied ? "good" : "info"}
            title={
              done.applied ? words.applied(formats.money(done.amount_rub)) : words.appliedBefore
            }
          >
            {words.balance(formats.money(done.balance_rub))}
          </Notice>
        )}
      </div>
      {failure.value && (
        <div class="voucher-result">
          <Notice tone="failure">
            <FailureText failure={failure.value} />
          </Notice>
        </div>
      )}
    </form>
  );
}
