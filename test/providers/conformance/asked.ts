import type { AnswerContent, Asked, Dialect } from "./dialect.ts";

/** What a dialect must be asked: what the case says, without what its interface has no counterpart for. */
export function expectedOf(
  dialect: Dialect,
  asks: Asked,
  { model, outputTokensMax }: { model: string; outputTokensMax: number },
): Asked {
  const all: Asked = {
    model,
    stream: false,
    system: [],
    ...(dialect.boundAlways && { bound: outputTokensMax }),
    ...asks,
  };
  const left = Object.entries(all).filter(([name]) => !dialect.leavesOut.some((no) => no === name));
  return Object.fromEntries(left);
}

/** The same without texts that say nothing: some interfaces refuse them, so they are left out. */
export function withoutBlanks(asked: Asked): Asked {
  const isSaid = (text: string): boolean => text.trim() !== "";
  const system = asked.system?.filter(isSaid);
  const conversation = asked.conversation?.filter(
    (piece: AnswerContent) => piece.by === "tool" || !("text" in piece) || isSaid(piece.text),
  );
  return { ...asked, ...(system && { system }), ...(conversation && { conversation }) };
}
