/** What `import … from "workflow"` becomes in a bundle: names read from the library in the heap. */
import { library } from "./library.ts";

const { workflow } = library;

export const createHook = workflow["createHook"];
export const createWebhook = workflow["createWebhook"];
export const defineHook = workflow["defineHook"];
export const fetch = workflow["fetch"];
export const getStepMetadata = workflow["getStepMetadata"];
export const getWorkflowMetadata = workflow["getWorkflowMetadata"];
export const getWritable = workflow["getWritable"];
export const setAttributes = workflow["setAttributes"];
export const sleep = workflow["sleep"];
export const FatalError = workflow["FatalError"];
export const RetryableError = workflow["RetryableError"];
