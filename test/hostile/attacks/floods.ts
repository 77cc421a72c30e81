/** Asking for too much: output, operations, jobs, payloads. */
import { bundle, endedInLimit, unsettled } from "../attack.ts";
import type { Attack, Observation } from "../attack.ts";

/** Room for JSON around what a limit counts. */
const ENVELOPE_FACTOR = 2;

function quietOf(seen: Observation) {
  return seen.run.passes.flatMap((pass) => (pass.kind === "quiet" ? [pass] : []));
}

function overConsole(seen: Observation): boolean {
  return quietOf(seen).some((pass) => {
    const bytes = pass.console.reduce((sum, line) => sum + Buffer.byteLength(line.text), 0);
    return bytes > seen.limits.consoleBytesPerPassMax || pass.console.length > 10_000;
  });
}

function overOpen(seen: Observation): boolean {
  return quietOf(seen).some((pass) => {
    const open = pass.operations.filter(({ kind }) => kind !== "dispose_hook").length;
    return open > seen.limits.openOperationsMax;
  });
}

function overPayload(seen: Observation): boolean {
  return quietOf(seen).some((pass) => {
    const sizes = pass.operations.map((operation) => {
      if (operation.kind === "step") return operation.input.length;
      if (operation.kind === "unserializable_step") return operation.error.length;
      if (operation.kind === "hook") return operation.metadata?.length ?? 0;
      return 0;
    });
    const { completion } = pass;
    if (completion !== null) {
      sizes.push(
        completion.kind === "completed" ? completion.output.length : completion.error.length,
      );
    }
    return sizes.some((size) => size > seen.limits.payloadBytesMax * ENVELOPE_FACTOR);
  });
}

function overHost(seen: Observation): boolean {
  return unsettled(seen) || seen.hostGrowthBytes > 256 << 20;
}

type Check = (seen: Observation) => boolean;

function flood(name: string, row: string, body: string, over: Check): Attack {
  return {
    name,
    row,
    program: bundle(body),
    weakening: "lifted_limits",
    succeeded: (seen) => over(seen) || overHost(seen),
  };
}

export const floodAttacks: readonly Attack[] = [
  flood(
    "a flood of lines is cut at the console's limit",
    "own",
    `for (var i = 0; i < 20000; i++) console.log("line " + i); return await step("a")(1);`,
    overConsole,
  ),
  flood(
    "a flood of empty lines is cut at the console's limit",
    "own",
    `for (var i = 0; i < 300000; i++) console.log(""); return await step("a")(1);`,
    overConsole,
  ),
  flood(
    "one giant line is cut at the console's limit",
    "own",
    `console.log("x".repeat(4e6)); return await step("a")(1);`,
    overConsole,
  ),
  flood(
    "lines that grow when encoded are cut at the console's limit",
    "own",
    `for (var i = 0; i < 200; i++) console.error("\\ud83d\\ude00\\u0001".repeat(4000)); return await step("a")(1);`,
    overConsole,
  ),
  flood(
    "a giant object on the console is cut",
    "E11",
    `var a = "x".repeat(1e5); console.log(new Array(1500).fill(a), { a: new Array(100).fill([a]) }); return await step("a")(1);`,
    overConsole,
  ),
  flood(
    "more open steps than allowed are refused at the call",
    "F21",
    `var all = []; for (var i = 0; i < 3000; i++) all.push(step("s")(i)); await Promise.all(all); return "joined";`,
    overOpen,
  ),
  flood(
    "more open sleeps than allowed are refused at the call",
    "F21",
    `for (var i = 0; i < 3000; i++) { try { sleep(1000 + i); } catch (e) {} } await sleep(1); return "slept";`,
    overOpen,
  ),
  flood(
    "more open hooks than allowed are refused at the call",
    "F21",
    `for (var i = 0; i < 3000; i++) { try { hook({ token: "t" + i }); } catch (e) {} } return await step("a")(1);`,
    overOpen,
  ),
  flood(
    "a step's argument over the payload's limit is refused at the call",
    "E7",
    `try { await step("a")("x".repeat(4e6)); } catch (e) { return e.name; } return "sent";`,
    overPayload,
  ),
  flood(
    "many arguments over the payload's limit in sum are refused",
    "E7",
    `try { await step("a")(...Array.from({ length: 1000 }, (_, i) => i + "x".repeat(4000))); } catch (e) { return e.name; } return "sent";`,
    overPayload,
  ),
  flood(
    "a payload that doubles when escaped is refused",
    "E7",
    `try { await step("a")("\\u0001".repeat(1e6)); } catch (e) { return e.name; } return "sent";`,
    overPayload,
  ),
  flood(
    "a result over the payload's limit fails the run",
    "E7",
    `return "x".repeat(4e6);`,
    overPayload,
  ),
  flood(
    "an error over the payload's limit fails the run",
    "E7",
    `throw new Error("x".repeat(4e6));`,
    overPayload,
  ),
  flood(
    "hook metadata over the payload's limit is refused",
    "E7",
    `try { hook({ token: "t", metadata: "x".repeat(4e6) }); } catch (e) { return e.name; } return await step("a")(1);`,
    overPayload,
  ),
  flood(
    "jobs without end in one event are cut",
    "F17",
    `for (var i = 0; i < 500000; i++) await 0; return "done";`,
    (seen) => !endedInLimit(seen, "jobsPerEventMax") && !endedInLimit(seen, "cpuSoftMs"),
  ),
];
