import { ApiError } from "../../src/contract/errors.ts";

/** The ApiError that an action throws or rejects with; undefined where it succeeds. Anything else that is thrown goes on. */
export async function refusalOf(action: () => unknown): Promise<ApiError | undefined> {
  try {
    await action();
    return undefined;
  } catch (error) {
    if (error instanceof ApiError) return error;
    throw error;
  }
}
