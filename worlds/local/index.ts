/**
 * The local World: one SQLite file, durable, for one writer process.
 *
 * Owns opening, checking and backing up. The rules are the ledger's, the transactions the SQLite
 * thread's (`sqlite-thread.entry.ts`), the batches `thread-core.ts`'s.
 *
 * Readers may open the file beside the writer (`readOnly`); a second writer is refused with
 * `WORLD_LOCKED`.
 */
import type { Clock, Log, Random } from "../../engine/ports/host.ts";
import type { Durability, World } from "../../engine/ports/world.ts";
import { worldOver } from "../face.ts";
import { silentLog, systemClock, systemRandom } from "../platform.ts";
import type { IntegrityReport } from "./maintenance.ts";
import type { LocalDurability } from "./protocol.ts";
import { ThreadCore } from "./thread-core.ts";

export type { IntegrityReport } from "./maintenance.ts";
export type { LocalDurability } from "./protocol.ts";

/** Where a local World lives, and how. */
export interface LocalWorldOptions {
  /** The database file; SQLite keeps `-wal`, `-shm` and our `-lock` beside it. */
  readonly path: string;
  readonly durability?: LocalDurability;
  readonly readOnly?: boolean;
  readonly clock?: Clock;
  readonly random?: Random;
  readonly log?: Log;
}

/** One SQLite file, and what is done to keep it. */
export interface LocalWorld extends World {
  /**
   * Reads the whole file: SQLite's own check, and every log's slots, counts and digests. Nothing
   * else is served meanwhile, so next to a busy process ask a World that is opened read-only.
   */
  integrityCheck(): Promise<IntegrityReport>;
  /** Copies the file as of now, while it stays in use. Leaves out nothing of the data. */
  backup(targetPath: string): Promise<void>;
  /** What SQLite says about its own settings, read back. */
  setting(name: "synchronous" | "journal_mode"): Promise<unknown>;
}

const SURVIVES: Readonly<Record<LocalDurability, Durability>> = {
  full: "power-loss",
  "power-loss-loses-newest": "process-crash",
  "power-loss-may-corrupt": "process-crash",
};

/** Opens the file for this process alone; `WORLD_LOCKED` if another one has it. */
export async function openLocalWorld(options: LocalWorldOptions): Promise<LocalWorld> {
  const { path, durability = "full", readOnly: isReadOnly = false } = options;
  const clock = options.clock ?? systemClock;
  const core = await ThreadCore.open({ path, durability, isReadOnly }, clock);
  const world = worldOver({
    name: "local",
    core,
    clock,
    random: options.random ?? systemRandom,
    log: options.log ?? silentLog,
    durability: SURVIVES[durability],
    isReadOnly,
  });
  // What fell due while nobody was there needs no send to be noticed.
  if (!isReadOnly) core.poke();
  return {
    ...world,
    integrityCheck: async () => (await core.control({ kind: "integrity" })) as IntegrityReport,
    backup: async (target) => {
      await core.control({ kind: "backup", target });
    },
    setting: async (name) => core.control({ kind: "pragma", name }),
  };
}
