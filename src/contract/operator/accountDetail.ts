import { Type, type Static } from "@sinclair/typebox";
import { time } from "../answerFields.ts";
import { AccountDocument } from "./account.ts";
import { ListedKey } from "./lists.ts";
import { figureFields, ModelSeries, seriesFields, spanFields } from "./span.ts";

const Figures = Type.Object({ from: time(), to: time(), ...figureFields });

/** The answer of GET /api/accounts/NAME. Keys: the newest first. */
export type AccountDetail = Static<typeof AccountDetail>;
export const AccountDetail = Type.Object({
  account: AccountDocument,
  ...spanFields,
  now: Figures,
  before: Figures,
  series: Type.Object({ ...seriesFields, models: Type.Array(ModelSeries) }),
  keys: Type.Array(ListedKey),
});
