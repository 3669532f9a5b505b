import { inspectStandby, StoreError, type ServerAddress } from "../../store/store.ts";
import { behindText } from "../cli/session.ts";
import { failed, passed, type Verdict } from "./verdict.ts";

const LAG_MS_MAX = 60_000;

/** Checks the hot standby that answers reports. */
export async function examineStandby(
  standby: ServerAddress,
  primary: ServerAddress,
): Promise<Verdict> {
  try {
    const { lagMs, schema, isSameDatabase } = await inspectStandby(standby, primary);
    const line = `${standby.shownUrl} (schema ${schema?.applied} of ${schema?.known}): ${behindText(lagMs)}`;
    if ((lagMs ?? 0) > LAG_MS_MAX) return failed(`${line}: see the log of its server`);
    if (isSameDatabase !== undefined) return passed(line);
    return passed(
      line,
      `${primary.shownUrl} gives no answer: whether it has the same database is not known`,
    );
  } catch (error) {
    if (!(error instanceof StoreError)) throw error;
    return failed(error.message);
  }
}
