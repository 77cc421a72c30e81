/** What the demo takes as a reason for a body that ran again, or that left nothing behind. */
import { describe, expect, it } from "vitest";
import { bodiesOf } from "../../examples/orders/demo/bodies.ts";

const line = (pid: number, attempt: number, effect: string, stepId = "step_1") => ({
  effect,
  orderId: "a",
  stepId,
  attempt,
  pid,
});
const first = line(1, 1, "price", "step_0");

describe("an attempt that is not in the ledger", () => {
  it("is explained by the end of the process before the next attempt's", () => {
    const { lost, again } = bodiesOf([first, line(2, 2, "charge")], "a");
    expect([lost, again.has("unexplained")]).toEqual([1, false]);
    const later = [first, line(1, 1, "charge failed"), line(2, 3, "charge")];
    expect(bodiesOf(later, "a").lost).toBe(1);
  });

  it.each([
    ["where the process lived on", [first, line(1, 2, "charge")]],
    [
      "where more attempts are missing than the end of one process takes",
      [first, line(2, 3, "charge")],
    ],
    ["behind one of the same process", [first, line(2, 1, "charge failed"), line(2, 3, "charge")]],
  ])("is unexplained %s", (_, lines) => {
    const { lost, again } = bodiesOf(lines, "a");
    expect([lost, again.has("unexplained")]).toEqual([0, true]);
  });
});
