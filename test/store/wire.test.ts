import { expect, test } from "bun:test";
import type { WriteOperation } from "../../src/store/writer/operations.ts";
import {
  decodeOperations,
  encodeOperations,
  resultFromWire,
  resultToWire,
} from "../../src/store/writer/writerMessages.ts";
import { ended, opened } from "../support/store/storeFolder.ts";

const owner = { accountId: 3, keyId: 9 };
const beyondDoubles = 9_007_199_254_740_993n;
/** Each kind has its own, so that one which is added is asked for here. */
const operations: {
  [Kind in WriteOperation["kind"]]: readonly Extract<WriteOperation, { kind: Kind }>[];
} = {
  openRequest: [{ kind: "openRequest", request: opened("req_1", owner, { hold: beyondDoubles }) }],
  settleRequest: [
    {
      kind: "settleRequest",
      settlement: ended("req_1", { cost: beyondDoubles, operatorCost: -beyondDoubles }),
    },
    {
      kind: "settleRequest",
      settlement: ended("req_2", { provider: null, operatorCost: null, firstByteMs: null }),
    },
  ],
  recordOwners: [
    {
      kind: "recordOwners",
      objects: [
        {
          hash: new Uint8Array([0, 127, 255]),
          accountId: 3,
          provider: "p",
          expiresAt: 77,
          historyTokens: 9,
        },
        { hash: new Uint8Array([1]), accountId: 4, provider: "q", expiresAt: 78, historyTokens: 0 },
      ],
      at: 77,
    },
  ],
  touchKey: [{ kind: "touchKey", keyId: 9, at: 77 }],
  probe: [{ kind: "probe" }],
  fold: [{ kind: "fold", before: 77 }],
};

test("an operation reaches the writer with each of its fields as it was", () => {
  const all = Object.values(operations).flat();
  expect(decodeOperations(encodeOperations(all))).toStrictEqual(all);
});

test("what came of it comes back to the last nano-rouble", () => {
  const result = { charge: beyondDoubles, writeOff: 1n, folded: 3 };
  expect(resultFromWire(resultToWire(result))).toStrictEqual(result);
});
