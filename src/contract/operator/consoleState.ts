import { Type, type Static } from "@sinclair/typebox";
import { time } from "../answerFields.ts";

/** The body of POST /api/session. */
export const SessionRequest = Type.Object(
  { token: Type.String({ maxLength: 128 }) },
  { additionalProperties: false },
);

const StandbyState = Type.Object({
  database: Type.String({ description: "Its URL without a password." }),
  behind_ms: Type.Union([Type.Integer(), Type.Null()], {
    description: "How far it is behind at most. Null: nobody knows.",
  }),
  problem: Type.Union([Type.String(), Type.Null()], {
    description: "Why the database itself answers meanwhile. Null: the standby answers.",
  }),
});

/** The answer of GET /api/state: what the console is, and for whom. */
export type ConsoleState = Static<typeof ConsoleState>;
export const ConsoleState = Type.Object({
  version: Type.String(),
  now: time(),
  actor: Type.String({
    description: "Who runs the console, and for whom. The admin log names them.",
  }),
  config_file: Type.String(),
  database: Type.String({ description: "The path of the database." }),
  standby: Type.Union([StandbyState, Type.Null()], {
    description: "The hot standby that answers the reads. Null: the database itself does.",
  }),
});

/** The answer of POST /api/session. It comes with the cookie. */
export type SessionAnswer = Static<typeof SessionAnswer>;
export const SessionAnswer = Type.Object({
  page_secret: Type.String({ description: "The value of `x-tollgate-console` from now on." }),
});

/** Every error of the console's API. The message is that of the command. */
export type ConsoleErrorBody = Static<typeof ConsoleErrorBody>;
export const ConsoleErrorBody = Type.Object({
  error: Type.Object({
    message: Type.String(),
    field: Type.Optional(Type.String({ description: "The name of the wrong value in the body." })),
  }),
});
