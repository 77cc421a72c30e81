/** Needs `npm run build` first: hosts and threads start from the built entries. */
import { readFileSync, readdirSync } from "node:fs";
import { afterEach, describe, expect, it, vi } from "vitest";
import type { Sandbox } from "../../engine/ports/sandbox.ts";
import { createSandbox } from "../../sandbox/index.ts";
import type { ProcessesOptions } from "../../sandbox/processes.ts";
import type { Incident } from "../../sandbox/threads.ts";
import {
  LIMITS,
  only,
  opened,
  outputOf,
  program,
  requestFor,
  started,
  stepCompleted,
} from "./heaps.ts";

const open: Sandbox[] = [];
afterEach(async () => {
  await Promise.all(open.splice(0).map((sandbox) => sandbox.close()));
});

function processes(options: ProcessesOptions = {}): { sandbox: Sandbox; incidents: Incident[] } {
  const incidents: Incident[] = [];
  const sandbox = createSandbox({
    form: "process",
    threads: 1,
    onIncident: (incident) => incidents.push(incident),
    ...options,
  });
  open.push(sandbox);
  return { sandbox, incidents };
}

const TWO_STEPS = `const a = await step("a"); return a + (await step("b"));`;

/** The child processes of this one. */
function children(): number[] {
  return readdirSync("/proc")
    .filter((name) => /^\d+$/.test(name))
    .map(Number)
    .filter((pid) => {
      try {
        const stat = readFileSync(`/proc/${pid}/stat`, "utf8");
        const [state, parent] = stat.slice(stat.lastIndexOf(")") + 2).split(" ");
        const command = readFileSync(`/proc/${pid}/cmdline`, "utf8");
        return Number(parent) === process.pid && state !== "Z" && command.includes("guest-host");
      } catch {
        return false;
      }
    });
}

describe("guest hosts", () => {
  it("a run in a process of its own ends as it does in any other form, over a snapshot too", async () => {
    const { sandbox } = processes();
    const bundle = program(TWO_STEPS);
    const heap = await opened(sandbox, requestFor(bundle));
    const first = only(await heap.pass([started()]));
    const image = await heap.snapshot({ slot: heap.consumedSlot, digest: "d" });
    heap.close();
    const again = await opened(sandbox, requestFor(bundle, { image: image as never }));
    const second = only(await again.pass([stepCompleted(2, first.correlationId, 20)]));
    expect(outputOf(await again.pass([stepCompleted(3, second.correlationId, 3)]))).toBe(23);
    expect(await sandbox.inspect(bundle, LIMITS)).toMatchObject({ workflows: ["main"] });
  });

  it("each tenant has a process of its own, unless a group says otherwise", async () => {
    const apart = processes();
    const together = processes({ trustGroupOf: () => "all" });
    const before = children().length;
    await opened(apart.sandbox, requestFor(program(TWO_STEPS, "acme")));
    await opened(apart.sandbox, requestFor(program(TWO_STEPS, "globex")));
    expect(children()).toHaveLength(before + 2);
    await opened(together.sandbox, requestFor(program(TWO_STEPS, "acme")));
    await opened(together.sandbox, requestFor(program(TWO_STEPS, "globex")));
    expect(children()).toHaveLength(before + 3);
  });

  it("it has no environment, and not root's rights", async () => {
    const { sandbox } = processes();
    const before = children();
    await opened(sandbox, requestFor(program(TWO_STEPS)));
    const [pid] = children().filter((child) => !before.includes(child));
    expect(readFileSync(`/proc/${pid}/environ`, "utf8")).toBe("");
    const uids = /^Uid:\s+(\d+)\s+(\d+)\s+(\d+)/m.exec(readFileSync(`/proc/${pid}/status`, "utf8"));
    expect(uids?.slice(1).map(Number)).not.toContain(0);
  });

  it("one that is killed loses its heaps, and the next open starts another", async () => {
    const { sandbox, incidents } = processes();
    const before = children();
    const bundle = program(TWO_STEPS);
    const heap = await opened(sandbox, requestFor(bundle));
    const [pid] = children().filter((child) => !before.includes(child));
    process.kill(pid as number, "SIGKILL");
    await vi.waitFor(() => expect(incidents.map(({ kind }) => kind)).toEqual(["host_ended"]));
    expect(await heap.pass([started()])).toMatchObject({ kind: "lost" });
    const again = await opened(sandbox, requestFor(bundle));
    expect(only(await again.pass([started()]))).toMatchObject({ kind: "step" });
  });

  it("a program that cannot be interrupted is ended inside it, and the host lives on", async () => {
    const { sandbox, incidents } = processes();
    const limits = { ...LIMITS, cpuSoftMs: 80, cpuHardMs: 200 };
    const endless = program(`Array.prototype.reverse.call({ length: 2 ** 50 });`);
    const kinds: string[] = [];
    for (let i = 0; i < 2; i++) {
      const heap = await opened(sandbox, requestFor(endless, { limits }));
      kinds.push((await heap.pass([started()])).kind);
    }
    expect(kinds).toEqual(["lost", "limit"]);
    expect(incidents.filter(({ kind }) => kind === "cpu_overrun")).toHaveLength(2);
    expect(incidents.filter(({ kind }) => kind === "host_ended")).toEqual([]);
  });
});
