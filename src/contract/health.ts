import { Type } from "@sinclair/typebox";
import { oneOf } from "./requestFields.ts";

/** The answer of GET /healthz while the gateway serves. */
export const Health = Type.Object({
  status: Type.Literal("ok"),
  version: Type.String({ description: "The version of the gateway." }),
});

/** The answer of GET /healthz while it does not. */
export const HealthProblem = Type.Object({
  status: oneOf(["draining", "unavailable"], {
    description:
      "`draining`: it ends, and takes no new requests; `unavailable`: its store is not usable.",
  }),
});
