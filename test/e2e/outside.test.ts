import { afterAll, beforeAll, describe, expect, it } from "vitest";
import type { Run } from "../../engine/compose.ts";
import { runIdOf, tenantIdOf } from "../../engine/ids.ts";
import { EMBEDDED_QUOTAS } from "../../tenants/quota.ts";
import { Embedded } from "./embedded.ts";
import { OUTSIDE_SOURCE } from "./outside-project.ts";

let embedded: Embedded;
const baton = () => embedded.baton;

async function all(stream: ReadableStream<unknown>): Promise<unknown[]> {
  const chunks: unknown[] = [];
  for await (const chunk of stream as unknown as AsyncIterable<unknown>) chunks.push(chunk);
  return chunks;
}

const outputOf = async (workflow: string, ...args: unknown[]) =>
  (await baton().start(workflow, args)).returnValue();

const FORMS = [
  { form: "as host code", steps: { trust: "host" } },
  { form: "in step heaps", steps: {} },
] as const;

describe.each(FORMS)("steps $form", ({ steps }) => {
  beforeAll(async () => {
    embedded = await Embedded.open(
      { "workflows/outside.js": OUTSIDE_SOURCE },
      {
        quotas: { ...EMBEDDED_QUOTAS, streamBytesPerRunMax: 1_000_000 },
        settings: { webhookBaseUrl: "https://hooks.example/of/{tenant}" },
        steps,
      },
    );
  });
  afterAll(async () => {
    await embedded[Symbol.asyncDispose]();
  });

  describe("a run's streams", () => {
    it("hold what several steps wrote, in order, bytes as bytes, by namespace", async () => {
      const run = await baton().start("chapters", []);
      const live = all(run.getReadable());
      await run.returnValue();
      const chunks = ["a", { b: 1n }, new Uint8Array([1, 2]), "c"];
      expect(await live).toEqual(chunks);
      expect(await all(run.getReadable({ startIndex: 2 }))).toEqual(chunks.slice(2));
      expect(await all(run.getReadable({ startIndex: -1 }))).toEqual(["c"]);
      expect(await run.getReadable().getTailIndex()).toBe(3);
    });

    it("hold what a body wrote and did not wait for, once its step is done", async () => {
      const run = await baton().start("chapters", []);
      await run.returnValue();
      const numbers = run.getReadable({ namespace: "numbers" });
      expect(await numbers.getTailIndex()).toBe(4);
      expect(await all(numbers)).toEqual([0, 1, 2, 3, 4]);
    });

    it("take no more bytes than the tenant may use, and the body can catch that", async () => {
      expect(await outputOf("flooding")).toBe("QUOTA_EXCEEDED");
    });

    it("pass through the workflow from one step to the next", async () => {
      expect(await outputOf("handedOn")).toBe("line 0,line 1,line 2");
    });

    it("that nobody closed are read as ended a while after their run", async () => {
      const run = await baton().start("webhook", ["none"]);
      const [token] = await firstOf(run);
      await baton().resumeWebhook(token, new Request("http://h/x"));
      await run.returnValue();
      expect(await all(run.getReadable())).toEqual([token]);
    });
  });

  it("attributes are set by steps, within the limits of workflows", async () => {
    const run = await baton().start("tagged", []);
    expect(await run.returnValue()).toBe("refused");
    expect((await run.row()).attributes).toEqual({ early: "yes", late: "set" });
  });

  describe("other runs", () => {
    it("are started, awaited and asked about in workflows and in steps", async () => {
      expect(await outputOf("children")).toEqual([
        8,
        [true, 10],
        "completed",
        ["WorkflowRunFailedError", "no luck"],
      ]);
    });

    it("are cancelled by who has their handle", async () => {
      expect(await outputOf("cancelling")).toEqual(["WorkflowRunCancelledError", "cancelled"]);
    });
  });

  describe("a signal that a step holds", () => {
    it("is fired by the workflow while the step runs", async () => {
      expect(await outputOf("abortedByWorkflow")).toBe("told: enough");
    });

    it("ends the step for good by what it was aborted with, without another attempt", async () => {
      const run = await baton().start("abortedUncaught", []);
      expect(await run.returnValue()).toEqual({ why: "enough" });
      const { events } = await baton()
        .world.forTenant(tenantIdOf(run.tenantId))
        .events.list(runIdOf(run.runId));
      expect(events.filter(({ eventType }) => eventType === "step_retrying")).toEqual([]);
    });

    it("is fired by another step, for the workflow as well and for steps to come", async () => {
      const reason = "from a step";
      expect(await outputOf("abortedByStep")).toEqual([
        `told: ${reason}`,
        true,
        reason,
        `at once: ${reason}`,
      ]);
    });

    it.each([false, true])(
      "is fired in a run that it was passed to, and in its steps (before its start: %s)",
      async (isEarly) => {
        const reason = "parent says so";
        const told = isEarly ? "at once" : "told";
        const output = await outputOf("abortsChild", isEarly);
        expect(output).toEqual([`${told}: ${reason}`, true, reason, `at once: ${reason}`]);
      },
    );

    it("is fired by a run that its controller was passed to", async () => {
      const reason = "child says so";
      expect(await outputOf("abortedByChild")).toEqual([`told: ${reason}`, reason, true]);
    });

    it("has a hook that no client, webhook or step can find by its token", async () => {
      const run = await baton().start("guardsSignal", ["guard"]);
      await expect.poll(() => holderOf("guard")).toBe(run.runId);
      const token = await signalTokenOf(run);
      const known = { tenantId: run.tenantId };
      await expect(baton().resumeHook(token, { reason: "forged" }, known)).rejects.toMatchObject({
        code: "HOOK_NOT_FOUND",
      });
      const request = new Request("http://host/hook", { method: "POST", body: "forged" });
      await expect(baton().resumeWebhook(token, request)).rejects.toMatchObject({
        code: "HOOK_NOT_FOUND",
      });
      await baton().resumeHook("guard", token);
      const seen = ["HookNotFoundError", "HookNotFoundError"];
      expect(await run.returnValue()).toEqual([seen, false, "told: own"]);
    });
  });

  describe("a hook", () => {
    it("takes payloads of a step and is looped over", async () => {
      expect(await outputOf("hooked", "loop")).toEqual([1, 2]);
    });

    it("kept past its run's end refuses the next run until it is taken by force", async () => {
      const first = await baton().start("guarded", ["kept"]);
      await baton().resumeHook("kept", "x", { waitMs: 10_000 });
      expect(await first.returnValue()).toBe("x");
      expect(await outputOf("guarded", "kept")).toBe(`held by ${first.runId}`);
      const last = await baton().start("claimer", ["kept"]);
      await baton().resumeHook("kept", "y", { waitMs: 10_000 });
      expect(await last.returnValue()).toBe("y");
    });

    it("taken by force throws in its run, and payloads go to the new holder", async () => {
      const victim = await baton().start("claimed", ["prize"]);
      await baton()
        .resumeHook("other", null)
        .catch(() => undefined);
      await expect.poll(() => holderOf("prize")).toBe(victim.runId);
      const claimer = await baton().start("claimer", ["prize"]);
      expect(await victim.returnValue()).toBe("HookForceClaimedError");
      expect(await baton().resumeHook("prize", "won")).toEqual({ runId: claimer.runId });
      expect(await claimer.returnValue()).toBe("won");
    });
  });

  describe("a webhook", () => {
    const send = async (kind: string, body: string) => {
      const run = await baton().start("webhook", [kind]);
      const [token] = await firstOf(run);
      const request = new Request("http://host/hook", { method: "POST", body });
      return { run, token, response: await baton().resumeWebhook(token, request) };
    };

    it("has an address below the base URL that was set when its run began", async () => {
      const run = await baton().start("address", []);
      const [url, token] = (await run.returnValue()) as [string, string];
      const path = "/of/default/.well-known/workflow/v1/webhook/";
      expect(url).toBe(`https://hooks.example${path}${token}`);
    });

    it("answers 202 with nothing by default, and the workflow reads the request", async () => {
      const { run, response } = await send("default", "hello");
      expect([response.status, await response.text()]).toEqual([202, ""]);
      expect(await run.returnValue()).toEqual(["POST", "hello"]);
    });

    it("answers with the response it was made with", async () => {
      const { response } = await send("static", "hello");
      expect([response.status, response.headers.get("x-a"), await response.text()]).toEqual([
        201,
        "b",
        "thanks",
      ]);
    });

    it("answers with what the workflow says to this request", async () => {
      const { run, response } = await send("manual", "hello");
      expect([response.status, await response.text()]).toEqual([200, "you said hello"]);
      await run.returnValue();
    });

    it("answers from a step, in parts", async () => {
      const run = await baton().start("webhookInStep", []);
      const [token] = await firstOf(run);
      const response = await baton().resumeWebhook(token, new Request("http://host/hook"));
      expect([response.headers.get("x-parts"), await response.text()]).toEqual(["2", "one two"]);
      await run.returnValue();
    });

    it("is not found under an unknown token, another tenant's, a plain hook's or a used one", async () => {
      const { run, token } = await send("default", "x");
      await run.returnValue();
      await baton().start("claimed", ["plain"]);
      await expect.poll(() => holderOf("plain")).not.toBe(null);
      for (const lost of [token, "unknown", "plain"]) {
        const asked = baton().resumeWebhook(lost, new Request("http://host/hook"));
        await expect(asked).rejects.toMatchObject({ code: "HOOK_NOT_FOUND" });
      }
    });

    it("is found by its token, with the run that it is of", async () => {
      const run = await baton().start("webhook", ["default"]);
      const [token] = await firstOf(run);
      expect(await baton().getHookByToken(token)).toMatchObject({
        runId: run.runId,
        isWebhook: true,
        metadata: undefined,
      });
      await run.cancel();
      await expect(baton().getHookByToken(token)).rejects.toMatchObject({ code: "HOOK_NOT_FOUND" });
    });

    it("refuses a body that is longer than a payload may be, and the run hears of nothing", async () => {
      const run = await baton().start("webhook", ["default"]);
      const [token] = await firstOf(run);
      const { payloadBytesMax } = EMBEDDED_QUOTAS;
      const request = new Request("http://host/hook", {
        method: "POST",
        body: new Uint8Array(payloadBytesMax + 1),
      });
      await expect(baton().resumeWebhook(token, request)).rejects.toMatchObject({
        code: "PAYLOAD_LIMIT_EXCEEDED",
      });
      expect(await run.status()).toBe("running");
      await run.cancel();
    });
  });

  describe("lifecycle hooks", () => {
    it("hear of runs that completed or failed, not of those cancelled, until they are taken back", async () => {
      const heard: string[] = [];
      const note = (what: string) => async (run: Run) => {
        heard.push(`${what} ${run.runId} ${await run.status()}`);
      };
      const unregister = baton().registerLifecycleHooks({
        onRunCompleted: note("completed"),
        onRunFailed: note("failed"),
      });
      const good = await baton().start("double", [1]);
      await good.returnValue();
      const bad = await baton().start("failing", []);
      await expect(bad.returnValue()).rejects.toMatchObject({ code: "RUN_FAILED" });
      const neither = await baton().start("dozing", []);
      await neither.cancel();
      await expect
        .poll(() => heard)
        .toEqual([`completed ${good.runId} completed`, `failed ${bad.runId} failed`]);
      unregister();
      await outputOf("double", 2);
      expect(heard).toHaveLength(2);
    });
  });
});

/** The token of the one system hook that the run has open. */
async function signalTokenOf(run: Run): Promise<string> {
  const store = baton().world.forTenant(tenantIdOf(run.tenantId));
  const { hooks } = await store.openEntities(runIdOf(run.runId));
  const [system] = hooks.filter(({ isSystem }) => isSystem);
  const [token] = JSON.parse(new TextDecoder().decode(system?.token).slice(4)) as [string];
  return token;
}

async function firstOf(run: Run): Promise<[string]> {
  const { value } = await run.getReadable().getReader().read();
  return [String(value)];
}

/** The run that has an open hook of this token; null if none has. */
async function holderOf(token: string): Promise<string | null> {
  const store = baton().world.forTenant(tenantIdOf("default"));
  for (const { runId } of (await store.runs.list({ status: "running" })).data) {
    const { hooks } = await store.openEntities(runId);
    const texts = hooks.map((hook) => new TextDecoder().decode(hook.token));
    if (texts.includes(`devl${JSON.stringify([token])}`)) return runId;
  }
  return null;
}
