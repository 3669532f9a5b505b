import type { BilledUsage } from "../billing/meter.ts";
import {
  aboveRateLimit,
  invalidRequest,
  resourceNotFound,
  type ApiError,
} from "../contract/errors.ts";
import type { EncodedRequest, UsageMember } from "../providers/provider.ts";
import { upstreamErrorOf, type UpstreamError } from "../providers/upstream.ts";
import type { Candidate } from "../routing/candidates.ts";
import type { AnswerDecoder, StoredObject } from "./decoding/answerDecoder.ts";
import { serviceOf } from "./interfaces.ts";
import type { AdmittedScope } from "./requestScope.ts";

/**
 * What an endpoint does with the body: it writes the request for a route, and reads the answer of that route into the
 * client's form. It has the body, so nothing that lives as long as a stream may keep it (memory rules:
 * docs/contribute/architecture.md).
 */
export interface ProviderCall {
  /** Throws or rejects with UnsupportedRequestError. It comes before `decoder` and `read` for the same candidate. */
  encode(scope: AdmittedScope, candidate: Candidate): EncodedRequest | Promise<EncodedRequest>;
  /** Makes the decoder of a streamed answer. It must not retain the body. */
  decoder(candidate: Candidate): AnswerDecoder;
  /** Reads an answer in JSON. Throws AnswerError. */
  read(scope: AdmittedScope, answer: Uint8Array, candidate: Candidate): ReadAnswer;
  /** Where an answer that is too large to be read has its usage. */
  usageMember(candidate: Candidate): UsageMember | undefined;
}

/** A JSON answer that was read completely. Everything that can fail happens before it is charged. */
export interface ReadAnswer {
  /** The answer for the client, as text or in UTF-8. */
  readonly body: string | Uint8Array;
  /** Undefined if nothing is charged. */
  readonly billed: BilledUsage | undefined;
  /** The provider reports that it failed. The answer is relayed. It is charged only by its usage, where it has text. */
  readonly isFailed?: boolean;
  /** The provider ran tools of its own. */
  readonly hasProviderCalls?: boolean;
  /** Services that the answer used and that cost more than the usual one. */
  readonly services?: readonly string[] | undefined;
  /** Stored objects that the account may name from now on. */
  readonly objects: readonly StoredObject[];
  /** Prompt tokens of a request that continues this answer by its id, before its own input. */
  readonly historyTokens: number;
  /** The provider's name for the model that answered, unchecked. For traces, as `finishReasons` is. */
  readonly model?: unknown;
  /** One for each choice. */
  readonly finishReasons?: readonly unknown[];
}

/** Some candidates get the client's own text, the others a chat. */
export class EitherCall implements ProviderCall {
  readonly #isNative: (candidate: Candidate) => boolean;
  readonly #native: ProviderCall;
  readonly #chat: () => ProviderCall;

  constructor(options: {
    isNative: (candidate: Candidate) => boolean;
    native: ProviderCall;
    chat: () => ProviderCall;
  }) {
    this.#isNative = options.isNative;
    this.#native = options.native;
    this.#chat = options.chat;
  }

  encode(scope: AdmittedScope, candidate: Candidate): EncodedRequest | Promise<EncodedRequest> {
    return this.#for(candidate).encode(scope, candidate);
  }

  decoder(candidate: Candidate): AnswerDecoder {
    return this.#for(candidate).decoder(candidate);
  }

  read(scope: AdmittedScope, answer: Uint8Array, candidate: Candidate): ReadAnswer {
    return this.#for(candidate).read(scope, answer, candidate);
  }

  usageMember(candidate: Candidate): UsageMember | undefined {
    return this.#for(candidate).usageMember(candidate);
  }

  #for(candidate: Candidate): ProviderCall {
    return this.#isNative(candidate) ? this.#native : this.#chat();
  }
}

/** The client's error for what an attempt threw, if the caller is at fault. */
export function refusalOf({ checked }: AdmittedScope, thrown: unknown): ApiError | undefined {
  const error = upstreamErrorOf(thrown);
  if (!error) return undefined;
  const isNotFound = error.fault === "notFound" && !error.isUnknownModel;
  // A responses request names what its provider has stored. An unknown model was named by the config.
  const isOwnName =
    isNotFound &&
    checked.endpoint === "responses" &&
    checked.candidates.some((candidate) => serviceOf("responses", candidate) === "native");
  return callerFault(error) ?? (isOwnName ? resourceNotFound() : undefined);
}

/** The 400 or 429 with the provider's words, if the provider refused the request itself. */
export function callerFault({ clientError }: UpstreamError): ApiError | undefined {
  if (!clientError) return undefined;
  const { message, extra, isRateLimit } = clientError;
  return isRateLimit === true ? aboveRateLimit(message, extra) : invalidRequest(message, extra);
}
