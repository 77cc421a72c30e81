import { describe, expect, it } from "vitest";
import { decodeText } from "../../../sandbox/host-codec.ts";
import { CREATED_AT, TestHeap } from "./heap.ts";

describe("a run", () => {
  it("asks for a step with its arguments, and goes on with the step's result", () => {
    const heap = TestHeap.running(`return (await step("add", input, [2n, undefined])).total`, {
      args: [{ from: new Date(5) }],
    });
    const [add] = heap.steps();
    expect(add).toMatchObject({
      name: "step//./test//add",
      args: [{ from: new Date(5) }, [2n, undefined]],
    });
    expect(heap.completes(add?.id as string, { total: 7 })).toBe("");
    expect(heap.report()).toMatchObject({ asked: [], closed: [add?.id], drawn: 1 });
    expect(heap.outcome()).toEqual({ ok: true, value: 7 });
  });

  it("fails with USER_ERROR and the thrown value, whatever was thrown", () => {
    const thrown: [string, unknown][] = [
      ["'text'", "text"],
      ["{ code: 5 }", { code: 5 }],
      ["null", null],
      ["undefined", undefined],
      ["12n", 12n],
    ];
    for (const [code, value] of thrown) {
      const heap = TestHeap.running(`throw ${code}`);
      expect(heap.report().done).toMatchObject({ ok: false, code: "USER_ERROR" });
      expect(heap.outcome().value).toEqual(value);
    }
  });

  it("fails with RUNTIME_ERROR if the bundle has no workflow of its name", () => {
    const heap = new TestHeap("");
    heap.init();
    heap.begin([]);
    expect(heap.report().done).toMatchObject({ ok: false, code: "RUNTIME_ERROR" });
    expect(heap.outcome().value).toMatchObject({ name: "WorkflowNotRegisteredError" });
  });

  it("lists after a restore all that is open, in the order asked", () => {
    const heap = TestHeap.running(`
      const hook = createHook({ token: "t", metadata: { a: 1 } });
      step("one"); sleep("1h"); setAttributes({ k: "v" }); hook.dispose(); step("two");
      await hook;`);
    const first = heap.report();
    const again = heap.open();
    expect(again.asked).toEqual(first.asked);
    expect(again.asked.map((ask) => ask.k)).toEqual([
      "hook",
      "step",
      "wait",
      "attr",
      "dispose",
      "step",
    ]);
    expect(again.asked.flatMap((ask) => ask.n ?? [])).toEqual([0, 1, 2, 3, 4]);
    expect(heap.report()).toMatchObject({ asked: [], closed: [] });
  });

  it("reports a step whose arguments cannot be encoded as one that fails, and goes on", () => {
    const heap = TestHeap.running(`
      const sibling = step("fine", 1);
      try { await step("bad", () => 1) } catch (error) {
        return [error.name, error instanceof Error, error.message, await sibling];
      }`);
    const [fine, bad] = heap.report().asked;
    expect(bad).not.toHaveProperty("input");
    const error = (bad as { error: string }).error;
    expect(decodeText(error)).toMatchObject({ name: "SerializationError" });
    heap.event("step_failed", bad?.id as string, { payload: error });
    heap.completes(fine?.id as string, "ok");
    const { value } = heap.outcome();
    expect(value).toMatchObject(["SerializationError", true, expect.anything(), "ok"]);
    expect((value as string[])[2]).toContain("Failed to serialize step arguments");
    expect((value as string[])[2]).toContain(".args[0]");
  });

  it("tells what it is", () => {
    const heap = TestHeap.running(`return getWorkflowMetadata()`);
    expect(heap.outcome().value).toMatchObject({
      workflowName: "workflow//./test//main",
      workflowRunId: "wrun_01HF7YAT00TEST00000000000A",
      workflowStartedAt: new Date(CREATED_AT),
    });
  });

  it("names what the bundle registered while it loaded", () => {
    const heap = new TestHeap(`
      globalThis[Symbol.for("WORKFLOW_USE_STEP")]("step//./a//one");
      globalThis.__private_workflows.set("workflow//./a//main", async () => 1);`);
    expect(JSON.parse(heap.command({ t: "registered" }))).toEqual({
      workflows: ["workflow//./a//main"],
      steps: ["step//./a//one"],
    });
  });
});
