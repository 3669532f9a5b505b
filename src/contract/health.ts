import { Type } from "@sinclair/typebox";
import { oneOf } from "./requestFields.ts";

/** The answer of GET /healthz while the gateway serves. */
export const Health = Type.Object({
  status: Type.Literal("ok"),
  version: Type.String({ description: "The version of the gateway." }),
});

/** The answer of GET /healthz while the gateway does not serve. */
export const HealthProblem = Type.Object({
  status: oneOf(["draining", "unavailable"], {
    description: "`draining`: the gateway shuts down; `unavailable`: it cannot use its database.",
  }),
});
