import { Panel } from "../components/frame.tsx";
import { Count, Money, placesOf } from "../components/values.tsx";
import { wordOf, words } from "../language.ts";
import { visibleText } from "../components/text.tsx";
import { pricingText } from "./pricing.ts";
import { multiplicationOf, type MultiplicationLine, type PricedReceipt } from "./multiplication.ts";

const { sum } = words;

/** The multiplication, one line for each kind of usage, and what it adds up to. */
export function ReceiptSum({ receipt }: { receipt: PricedReceipt }) {
  const { lines, differenceRub, costRub, netRub } = multiplicationOf(receipt);
  const places = placesOf([
    ...lines.map(({ amountRub }) => amountRub),
    differenceRub,
    costRub,
    netRub,
  ]);
  const isRefunded = receipt.refunded_rub !== "0";
  const isLess = differenceRub.startsWith("-");
  const why = pricingText(receipt.pricing);
  return (
    <Panel
      title={sum.title}
      text={why === "" ? sum.note : `${sum.note} ${visibleText(why)}`}
      isFlush
    >
      <div class="sum">
        {/* Where it becomes a list, browsers forget that it is a table, so the roles are written out. */}
        <table role="table">
          <caption class="unseen">{sum.title}</caption>
          <thead role="rowgroup">
            <tr role="row">
              <th role="columnheader" scope="col">
                {sum.kind}
              </th>
              <th role="columnheader" scope="col" class="number">
                {sum.count}
              </th>
              <th role="columnheader" scope="col" class="number">
                {sum.price}
              </th>
              <th role="columnheader" scope="col" class="number">
                {sum.amount}
              </th>
            </tr>
          </thead>
          <tbody role="rowgroup">
            {lines.map((line) => (
              <Line key={line.figure.name} line={line} places={places} />
            ))}
            {differenceRub !== "0" && (
              <SumLine
                name={isLess ? sum.notCharged : sum.chargedBeyond}
                amount={differenceRub}
                places={places}
              />
            )}
          </tbody>
          <tfoot role="rowgroup">
            <SumLine name={sum.charged} amount={costRub} places={places} />
            {isRefunded && (
              <>
                <SumLine name={sum.refunded} amount={`-${receipt.refunded_rub}`} places={places} />
                <SumLine name={sum.net} amount={netRub} places={places} />
              </>
            )}
          </tfoot>
        </table>
      </div>
    </Panel>
  );
}

function SumLine({ name, amount, places }: { name: string; amount: string; places: number }) {
  return (
    <tr role="row">
      <th role="rowheader" scope="row" colSpan={3}>
        {name}
      </th>
      <td role="cell" class="number">
        <Money amount={amount} isExact places={places} />
      </td>
    </tr>
  );
}

function Line({ line, places }: { line: MultiplicationLine; places: number }) {
  const { figure, count, priceRub, amountRub } = line;
  return (
    <tr role="row" class="line">
      <th role="rowheader" scope="row">
        {wordOf(figure.words)}
      </th>
      <td role="cell" class="number">
        <Count value={count} />
      </td>
      <td role="cell" class="number">
        <span class="hint">× </span>
        <Money amount={priceRub} isExact />
        <span class="hint"> {wordOf(figure.unit.words)}</span>
      </td>
      <td role="cell" class="number">
        <span class="hint">= </span>
        <Money amount={amountRub} isExact places={places} />
      </td>
    </tr>
  );
}
