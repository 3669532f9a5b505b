/** Why the demo provider refuses a request, in the form in which OpenAI's interface says it. */
export class Refusal extends Error {
  override readonly name = "Refusal";
  readonly status: number;
  readonly details: RefusalDetails;

  constructor(
    status: number,
    message: string,
    details: RefusalDetails = {},
    options?: ErrorOptions,
  ) {
    super(message, options);
    this.status = status;
    this.details = details;
  }

  /** The answer that carries it. A refusal of a key has the same type there as one of a field. */
  toResponse(): Response {
    const { param = null, code = null } = this.details;
    const error = { message: this.message, type: "invalid_request_error", param, code };
    return Response.json({ error }, { status: this.status });
  }
}

interface RefusalDetails {
  /** The field at fault. */
  readonly param?: string;
  readonly code?: string;
}
