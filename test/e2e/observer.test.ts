import { expect, test } from "bun:test";
import { startLoadProvider } from "../support/provider/loadProvider.ts";
import { oneModel } from "../support/gateway/gatewayConfig.ts";
import { openBinaryBefore } from "../support/binary/gatewayBefore.ts";
import { observeCharges } from "../support/binary/observer.ts";

const provider = startLoadProvider({ wordDelayMs: 0 });
const sections = { database: { path: "tollgate.db", durability: "power" } };
const setup = openBinaryBefore(oneModel(provider.url, sections), provider);

const rounds = 1000;
const timeoutMs = 60_000;

// `bun scripts/observeCharges.ts` checks a hundred thousand times.
test(
  `in ${rounds} answers another process finds the charge committed in the moment that their end arrives`,
  async () => {
    const { gateway, key } = setup;
    const { url, place } = gateway;
    const seen = await observeCharges({ url, key, place }, rounds);
    expect(seen).toEqual({
      ends: {
        chat: rounds / 4,
        "chat stream": rounds / 4,
        responses: rounds / 4,
        "responses stream": rounds / 4,
      },
      early: [],
    });
  },
  timeoutMs,
);
