/** Why a command ends without success, in one line that says what to do next. `status` is that of the process. */
export class CommandFailure extends Error {
  override readonly name = "CommandFailure";
  /** 1: it failed. 2: the command line itself is wrong. */
  readonly status: 1 | 2;

  constructor(message: string, options: ErrorOptions & { readonly status?: 1 | 2 } = {}) {
    super(message, options);
    this.status = options.status ?? 1;
  }
}
