import { getStepMetadata, getWorkflowMetadata } from "workflow";

async function inStep(): Promise<unknown[]> {
  "use step";
  const step = getStepMetadata();
  const workflow = getWorkflowMetadata();
  return [
    step.stepName,
    step.stepId.startsWith("step_"),
    step.attempt,
    step.stepStartedAt instanceof Date,
    workflow.workflowName,
    workflow.workflowRunId,
    workflow.workflowStartedAt.getTime(),
  ];
}

export async function main(): Promise<unknown> {
  "use workflow";
  const { workflowName, workflowRunId, workflowStartedAt, features } = getWorkflowMetadata();
  const seen = await inStep();
  return [
    workflowName,
    workflowRunId.startsWith("wrun_"),
    seen.slice(0, 5),
    seen[5] === workflowRunId,
    seen[6] === workflowStartedAt.getTime(),
    typeof features.encryption,
  ];
}
