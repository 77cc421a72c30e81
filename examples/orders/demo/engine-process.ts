/**
 * The process that the demo kills: a Baton on the local World, asked over the process's channel.
 * Nothing here knows of the demo's kills; what it has to know after one is in the World.
 */
import { join } from "node:path";
import { createBaton } from "../../../engine/compose.ts";
import type { Baton } from "../../../engine/compose.ts";
import { assertNever } from "../../../engine/assert.ts";
import { isBatonError } from "../../../engine/errors.ts";
import type { Log, LogFields } from "../../../engine/ports/host.ts";
import { runIdOf, tenantIdOf } from "../../../engine/ids.ts";
import type { RunRow } from "../../../engine/ports/world.ts";
import { buildBundle } from "../../../tenants/bundles/build.ts";
import { openLocalWorld } from "../../../worlds/local/index.ts";
import type { DeliveryLine, Request, Result, Said, State } from "./messages.ts";

const TENANT = tenantIdOf("default");

function say(said: Said): void {
  process.send?.(said);
}

function logInto(context: LogFields): Log {
  const trouble = (fields: LogFields, message: string): void => {
    say({ kind: "trouble", text: `${message} ${JSON.stringify({ ...context, ...fields })}` });
  };
  return {
    debug: () => undefined,
    info: (fields, message) => {
      if (message === "delivery" && typeof fields["passes"] === "number") {
        say({ kind: "delivery", line: { ...context, ...fields } as unknown as DeliveryLine });
      }
    },
    warn: trouble,
    error: trouble,
    child: (fields) => logInto({ ...context, ...fields }),
  };
}

async function open(folder: string): Promise<Baton> {
  const log = logInto({});
  const world = await openLocalWorld({ path: join(folder, "baton.db"), log });
  const keyFolder = join(folder, "keys");
  const baton = await createBaton({ world, keyFolder, log, steps: { trust: "host" } });
  const projectRoot = join(import.meta.dirname, "..");
  await baton.bundles.deploy(await buildBundle({ projectRoot, entries: ["workflows"] }));
  return baton;
}

async function answer(baton: Baton, request: Request): Promise<unknown> {
  switch (request.kind) {
    case "start":
      await baton.start("order", [request.order], { runId: request.runId });
      return null;
    case "approve": {
      const token = `approve:${request.orderId}`;
      await baton.resumeHook(token, request.answer, { resumeId: token });
      return null;
    }
    case "state":
      return stateOf(baton);
    case "results":
      return Promise.all(request.runIds.map((runId) => resultOf(baton, runId)));
    case "close":
      return null;
    default:
      return assertNever(request);
  }
}

async function stateOf(baton: Baton): Promise<State> {
  const store = baton.world.forTenant(TENANT);
  const { data } = await store.runs.list({ limit: 1000 });
  const open = data.filter((row: RunRow) => row.completedAt === null);
  let sleeping = 0;
  let bodies = 0;
  for (const row of open) {
    const entities = await store.openEntities(row.runId);
    bodies += entities.steps.filter((step) => step.status === "running").length;
    if (entities.steps.length === 0 && entities.waits.length > 0) sleeping++;
  }
  return { over: data.length - open.length, sleeping, busy: open.length - sleeping, bodies };
}

async function resultOf(baton: Baton, runId: string): Promise<Result> {
  const row = await baton.world.forTenant(TENANT).runs.get(runIdOf(runId));
  const events = row?.counts.seq ?? 0;
  const status = row?.status ?? "missing";
  if (row === null || row.completedAt === null) {
    return { runId, events, result: { kind: "open", status } };
  }
  try {
    const output = await baton.getRun(runId).returnValue();
    return { runId, events, result: { kind: "completed", output } };
  } catch (error) {
    const { name, message } = (isBatonError(error, "RUN_FAILED") ? error.cause : error) as Error;
    return { runId, events, result: { kind: "failed", name, message } };
  }
}

const openedAt = Date.now();
const baton = await open(process.argv[2] ?? ".");
process.on("message", ({ id, request }: { id: number; request: Request }) => {
  void answer(baton, request)
    .then(
      (value) => say({ kind: "reply", id, value }),
      (error: unknown) => {
        const code = isBatonError(error) ? error.code : "UNEXPECTED";
        say({ kind: "refused", id, code, message: String(error) });
      },
    )
    .then(async () => {
      if (request.kind !== "close") return;
      await baton.close();
      process.disconnect();
    });
});
say({ kind: "ready", startMs: Date.now() - openedAt });
