import { resourceNotFound, responseNotFound, type ApiError } from "../../contract/errors.ts";
import type { ResponsesRequest } from "../../contract/responses.ts";
import { DAY_MS } from "../../lib/clock.ts";
import { sha256 } from "../../lib/sha256.ts";
import type { Candidate } from "../../routing/candidates.ts";
import type { StoredObject } from "../decoding/answerDecoder.ts";
import type { RequestScope } from "../requestScope.ts";

/** How long an account may name an object that a provider stored for it. */
const OWNED_MS = 31 * DAY_MS;

/** The candidates for a request that names stored objects. */
export interface PinnedCandidates {
  readonly candidates: readonly Candidate[];
  /** Prompt tokens of the conversation and the items that the request names, as far as they are known. */
  readonly storedTokens: number;
}

/**
 * Returns the candidates that may serve a request with stored objects: only the provider that stores them. Encrypted
 * reasoning also goes to its provider if that serves the model. Throws ApiError 404 for an object that this account does
 * not own and that is not shared, or whose provider does not serve the model. The error is the same for an object of
 * another account and for one that does not exist.
 */
export async function pinToProvider(
  scope: RequestScope,
  request: ResponsesRequest,
  candidates: readonly Candidate[],
): Promise<PinnedCandidates> {
  const { sharedObjects } = scope.snapshot.config.api;
  const find = finderOfOwned(scope);
  const owners = await ownersOf(find, sharedObjects, request);
  let serving = candidates;
  const pinTo = (objectId: string, missing: () => ApiError): number => {
    const owned = owners.get(objectId);
    serving = serving.filter(({ provider }) => provider.id === owned?.provider);
    if (!owned || serving.length === 0) throw missing();
    return owned.historyTokens;
  };
  const { previousResponseId } = request;
  let storedTokens =
    previousResponseId === undefined ? 0 : pinTo(previousResponseId, responseNotFound);
  for (const objectId of request.objectIds) {
    if (sharedObjects.includes(objectId)) continue;
    const itemTokens = pinTo(objectId, resourceNotFound);
    if (request.referencedIds.has(objectId)) storedTokens += itemTokens;
  }
  const { comparisonResponseId } = request;
  if (comparisonResponseId !== undefined) pinTo(comparisonResponseId, responseNotFound);
  // Another provider may refuse encrypted reasoning or ignore it. The newest item decides.
  for (const objectId of request.encryptedReasoningIds.toReversed()) {
    const providerId = (await find(objectId))?.provider;
    const decrypting = serving.filter(({ provider }) => provider.id === providerId);
    if (decrypting.length === 0) continue;
    serving = decrypting;
    break;
  }
  return { candidates: serving, storedTokens };
}

interface Owned {
  readonly provider: string;
  readonly historyTokens: number;
}

/** Finds a stored object of the account by its id. */
type FindOwned = (objectId: string) => Owned | undefined | Promise<Owned | undefined>;

function finderOfOwned({ gateway, caller }: RequestScope): FindOwned {
  const { store, clock } = gateway;
  const nowMs = clock.epochMs();
  return (objectId) => store.owners.find(sha256(objectId), caller.accountId, nowMs);
}

/** The stored objects that a request must own, as far as the account owns them. */
async function ownersOf(
  find: FindOwned,
  shared: readonly string[],
  { previousResponseId, comparisonResponseId, objectIds }: ResponsesRequest,
): Promise<ReadonlyMap<string, Owned>> {
  const named = new Set([
    ...[previousResponseId, comparisonResponseId].filter((id) => id !== undefined),
    ...objectIds.filter((id) => !shared.includes(id)),
  ]);
  const found = await Promise.all([...named].map(async (id) => [id, await find(id)] as const));
  return new Map(found.flatMap(([id, owned]) => (owned ? [[id, owned] as const] : [])));
}

/**
 * Records the stored objects of an answer as the account's. The response gets `historyTokens`, other objects their own
 * tokens. Resolves when that is committed.
 */
export async function recordObjects(
  { gateway, caller }: RequestScope,
  named: readonly StoredObject[],
  provider: string,
  historyTokens: number,
): Promise<void> {
  const { accountId } = caller;
  const at = gateway.clock.epochMs();
  const expiresAt = at + OWNED_MS;
  const objects = named.map(({ id, tokens = historyTokens }) => {
    return { hash: sha256(id), accountId, provider, expiresAt, historyTokens: tokens };
  });
  await gateway.writer.writeWithin({ kind: "recordOwners", objects, at });
}
