import { commit, type Meter } from "../../billing/meter.ts";
import { resourceNotFound, responseNotFound, type ApiError } from "../../contract/errors.ts";
import type { ResponsesRequest } from "../../contract/responses/responsesRequest.ts";
import { DAY_MS } from "../../lib/time.ts";
import { sha256 } from "../../lib/sha256.ts";
import type { Candidate } from "../../routing/candidates.ts";
import type { StoredObject } from "../decoding/answerDecoder.ts";
import type { Gateway, RequestContext } from "../gateway.ts";

/** How long an account may name what a provider made for it. */
const OWNED_MS = 31 * DAY_MS;

/** Who may serve a request that names stored objects, and what it has in its prompt besides its own text. */
export interface Pinned {
  readonly candidates: readonly Candidate[];
  /** Of the conversation that the request continues, and of the items that it refers to, as far as they are known. */
  readonly storedTokens: number;
}

/**
 * The candidates that may serve a request which names stored objects: only the provider that made them. What bears
 * encrypted reasoning goes to its maker too, where that serves the model. Throws ApiError 404 for any object that this account did not make and that is not shared, and for one
 * whose provider does not serve the model; the words are the same for a foreign one and for one that never was.
 */
export function pinToProvider(
  gateway: Gateway,
  context: RequestContext,
  request: ResponsesRequest,
  candidates: readonly Candidate[],
): Pinned {
  const { sharedObjects } = context.snapshot.config.api;
  let serving = candidates;
  const find = (objectId: string) =>
    gateway.store.owners.find(sha256(objectId), context.caller.accountId, gateway.clock.epochMs());
  const pin = (objectId: string, missing: () => ApiError): number => {
    const owned = find(objectId);
    serving = serving.filter(({ provider }) => provider.id === owned?.provider);
    if (!owned || serving.length === 0) throw missing();
    return owned.historyTokens;
  };
  const { previousResponseId } = request;
  let storedTokens =
    previousResponseId === undefined ? 0 : pin(previousResponseId, responseNotFound);
  for (const objectId of request.objectIds) {
    if (sharedObjects.includes(objectId)) continue;
    const itemTokens = pin(objectId, resourceNotFound);
    if (request.referencedIds.has(objectId)) storedTokens += itemTokens;
  }
  const { comparedResponseId } = request;
  if (comparedResponseId !== undefined) pin(comparedResponseId, responseNotFound);
  // It came back whole: a provider that did not make it may refuse it, or read past it. The newest tells who can read it.
  for (const objectId of request.sealedIds.toReversed()) {
    const maker = find(objectId)?.provider;
    const makers = serving.filter(({ provider }) => provider.id === maker);
    if (makers.length === 0) continue;
    serving = makers;
    break;
  }
  return { candidates: serving, storedTokens };
}

/**
 * Records what an answer names as the account's own: the response with the tokens that a request which continues it
 * begins with, all else with its own. Resolves when that is committed.
 */
export type RecordObjects = (
  objects: readonly StoredObject[],
  provider: string,
  historyTokens: number,
) => Promise<void>;

/** Gives up at once where the request itself could not be entered: it ends in a failure, and nobody is told these ids. */
export function objectRecorder(
  { clock, writer }: Gateway,
  context: RequestContext,
  meter: Pick<Meter, "couldNotOpen">,
): RecordObjects {
  const { accountId } = context.caller;
  return async (named, provider, historyTokens) => {
    if (named.length === 0) return;
    const at = clock.epochMs();
    const expiresAt = at + OWNED_MS;
    const objects = named.map(({ id, tokens = historyTokens }) => {
      return { hash: sha256(id), accountId, provider, expiresAt, historyTokens: tokens };
    });
    await commit(writer, clock, { kind: "recordOwners", objects, at }, () => !meter.couldNotOpen);
  };
}
