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

const LATE_INSTRUCTION = /^<system>\n([^]*?)\n<\/system>(?:\n\n)?/;

const BESIDE_RESULT = /^([^]*)\n\n<user>\n([^]*)\n<\/user>$/;

/**
 * The same with one text for all that a speaker says without a pause, and one for the instructions. Some servers take no
 * other order, so a request of another interface is written like that. Later instructions are then texts of the user.
 */
export function inTurns({ conversation = [], system = [], ...asked }: Asked): Asked {
  const instructions = [...system];
  const turns: AnswerContent[] = [];
  for (const piece of conversation) {
    if (piece.by === "tool") {
      const [, result = piece.text, said] = BESIDE_RESULT.exec(piece.text) ?? [];
      turns.push({ ...piece, text: result });
      if (said !== undefined) turns.push({ by: "user", text: said });
      continue;
    }
    // Between a result and the user.
    if ("text" in piece && piece.text === "(continued)") continue;
    if (!("text" in piece)) {
      turns.push(piece);
      continue;
    }
    let { text } = piece;
    for (let found = LATE_INSTRUCTION.exec(text); found; found = LATE_INSTRUCTION.exec(text)) {
      instructions.push(found[1] ?? "");
      text = text.slice(found[0].length);
    }
    const last = turns.at(-1);
    if (text === "") continue;
    if (last && last.by === piece.by && "text" in last)
      turns.splice(-1, 1, { ...last, text: `${last.text}\n\n${text}` });
    else turns.push({ ...piece, text });
  }
  return { ...asked, system: [instructions.join("\n\n")], conversation: turns };
}
