/** Commands of the host: parsed, obeyed, answered with text. The host alone can reach this. */
import type { EventType } from "../../engine/events.ts";
import { Consumer } from "./consume.ts";
import { idSource } from "./entity-ids.ts";
import type { Guest } from "./guest.ts";
import { ErrorConstructor, jsonOf, jsonParse, own } from "./primordials.ts";
import { reportText } from "./report.ts";
import type { Operation } from "./operations.ts";
import type { WorkflowRun } from "./workflow-run.ts";

/** The text of `undefined`: what an event without a payload brings. */
const NOTHING = "-1";

export type Dispatch = (commandJson: string, payloadText?: string) => string;

export function createDispatch(guest: Guest, run: WorkflowRun, registered: () => string): Dispatch {
  const consumer = new Consumer(guest, run);

  function init(command: object): string {
    const createdAt = own(command, "createdAt") as number;
    const seed = own(command, "seed") as string;
    guest.run = {
      runId: own(command, "runId") as string,
      workflowName: own(command, "workflowName") as string,
      createdAt,
      payloadBytesMax: own(command, "payloadBytesMax") as number,
      baseUrl: own(command, "baseUrl") as string | null,
    };
    guest.clock.start(createdAt);
    guest.random.seed(seed);
    guest.console.limit(own(command, "consoleBytesPerPassMax") as number);
    const openMax = own(command, "openOperationsMax") as number;
    guest.operations.start(idSource(seed, createdAt), openMax);
    return "";
  }

  function event(command: object, payloadText: string | undefined): string {
    const asked = own(command, "asked") as object | null;
    const stepName = asked === null ? undefined : own(asked, "stepName");
    const resumeAt = asked === null ? undefined : own(asked, "resumeAt");
    const conflictingRunId = own(command, "conflictingRunId");
    const slot = own(command, "slot") as number;
    const contradiction = consumer.consume({
      slot,
      type: own(command, "type") as EventType,
      id: own(command, "id") as string | null,
      at: own(command, "at") as number,
      stepName: typeof stepName === "string" ? stepName : null,
      resumeAt: typeof resumeAt === "number" ? resumeAt : null,
      conflictingRunId: typeof conflictingRunId === "string" ? conflictingRunId : undefined,
      payload: typeof payloadText === "string" && payloadText !== "" ? payloadText : NOTHING,
    });
    if (contradiction === null) return "";
    const { found, expected } = contradiction;
    return `{"diverged":{"slot":${slot},"found":${jsonOf(found)},"expected":${jsonOf(expected)}}}`;
  }

  function report(asked: readonly Operation[], closed: readonly string[]): string {
    const parts = {
      operations: guest.operations,
      watched: guest.watched,
      done: run.done(),
      lines: guest.console.takeLines(),
    };
    return reportText(parts, asked, closed);
  }

  return (commandJson, payloadText) => {
    const command = jsonParse(commandJson) as object;
    switch (own(command, "t")) {
      case "init":
        return init(command);
      case "event":
        return event(command, payloadText);
      case "report": {
        const news = guest.operations.takeNew();
        return report(news.asked, news.closed);
      }
      case "registered":
        return registered();
      case "open":
        return report(guest.operations.all(), []);
      default:
        throw new ErrorConstructor("the host sent a command that this library does not know");
    }
  };
}
