/** Run as a process of its own by elsewhere.ts: carries out errands until its parent hangs up. */
import { createSandbox } from "../../../sandbox/index.ts";
import type { Errand, Reply } from "./elsewhere.ts";
import { passRestored, replayCold } from "./lead.ts";

async function carriedOut({ kind, request, events }: Errand): Promise<Reply> {
  const sandbox = createSandbox({ form: "calling-thread" });
  try {
    if (kind === "restore") return await passRestored(sandbox, request, events);
    return { before: "", after: await replayCold(sandbox, request, [{ events }], 0), image: null };
  } catch (error) {
    return { failed: error instanceof Error ? (error.stack ?? error.message) : String(error) };
  } finally {
    await sandbox.close();
  }
}

process.on("message", (errand: Errand) => {
  void carriedOut(errand).then((reply) => process.send?.(reply));
});
